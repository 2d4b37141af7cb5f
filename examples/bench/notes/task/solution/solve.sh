#!/bin/sh
./safe.sh 5
