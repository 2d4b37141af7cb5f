#!/bin/sh
# Stands for an agent: makes the file that the current item asks for, and claims completion.
id=$(sed -n 's/^Id: //p' | head -n 1)
echo "made by the bot" > "$id.txt"
echo "<promise>COMPLETE: $id.txt is there</promise>"
