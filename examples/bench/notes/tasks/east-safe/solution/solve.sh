#!/bin/sh
./safe.sh 0
