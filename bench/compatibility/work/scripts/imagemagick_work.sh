# SPDX-License-Identifier: Apache-2.0
convert-im6.q16 -size 600x400 plasma:red-blue -seed 7 -depth 8 in.png 2>/dev/null || true
convert-im6.q16 -size 700x500 gradient:navy-gold -swirl 120 -blur 0x3 -resize 60% -rotate 30 -depth 8 rgb:- | md5sum
convert-im6.q16 rose: -resize 400% -emboss 2 -quantize Lab -colors 32 -depth 8 txt:- | md5sum
convert-im6.q16 rose: -resize 300% rose.jpg
identify-im6.q16 -format '%m %w %h\n' rose.jpg
