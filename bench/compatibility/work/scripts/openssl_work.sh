# SPDX-License-Identifier: Apache-2.0
openssl speed -seconds 1 -bytes 1024 sha256 aes-128-cbc >speed.txt 2>&1
grep -c 1024 speed.txt
openssl genrsa -out key.pem 2048 2>/dev/null
openssl rsa -in key.pem -check -noout
openssl req -new -x509 -key key.pem -subj /CN=test -days 2 -out cert.pem
openssl verify -CAfile cert.pem cert.pem
openssl dgst -sha256 -sign key.pem -out signature "$INPUT/figures"
openssl rsa -in key.pem -pubout -out public.pem 2>/dev/null
openssl dgst -sha256 -verify public.pem -signature signature "$INPUT/figures"
openssl enc -aes-256-cbc -pbkdf2 -S 0011223344556677 -k secret -in "$INPUT/figures" | openssl dgst -sha512
