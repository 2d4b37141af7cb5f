#!/bin/sh
./safe.sh 2
