#!/bin/sh
./safe.sh 1
