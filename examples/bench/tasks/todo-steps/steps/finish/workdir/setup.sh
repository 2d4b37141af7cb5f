#!/bin/bash
# A list that was kept before this step.
printf 'water plants\nread book\n' > todo.txt
