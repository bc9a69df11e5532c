# SPDX-License-Identifier: Apache-2.0
for type in ed25519 ecdsa rsa; do
    ssh-keygen -q -t "$type" -N secret -C nobody -f "key_$type"
    ssh-keygen -y -P secret -f "key_$type" | cut -d ' ' -f 1
    ssh-keygen -l -f "key_$type.pub" | cut -d ' ' -f 1,3,4
done
ssh-keygen -p -q -P secret -N other -f key_rsa
ssh-keygen -p -q -P secret -N '' -f key_ed25519
ssh-keygen -Y sign -q -f key_ed25519 -n file <"$INPUT/figures" >signature
ssh-keygen -Y check-novalidate -n file -s signature <"$INPUT/figures" | cut -d ' ' -f 1-3
