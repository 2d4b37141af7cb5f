#!/bin/sh
cp /solution/recover.py recover.py
