#!/bin/sh
./safe.sh 3
