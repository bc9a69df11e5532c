# SPDX-License-Identifier: Apache-2.0
ffmpeg -v error -nostdin -f lavfi -i testsrc2=duration=2:size=320x240:rate=25 \
    -f lavfi -i sine=frequency=440:duration=2 \
    -c:v mpeg4 -q:v 5 -c:a ac3 -fflags +bitexact -flags:v +bitexact -flags:a +bitexact -threads 4 out.mkv
md5sum out.mkv
ffmpeg -v error -nostdin -i out.mkv -vf scale=160:120,hflip -f framemd5 -threads 4 - | md5sum
