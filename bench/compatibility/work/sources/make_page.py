# SPDX-License-Identifier: Apache-2.0
print(".TH PAGE 1\n.SH NAME\npage \\- a page")
for i in range(1500):
    print(f".SS Part {i}\n.PP\nSome \\fBbold\\fR words and \\fIothers\\fR, {i} in all.")
    print(".TP\n.B \\-o\nAn option.")
