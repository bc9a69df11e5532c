# SPDX-License-Identifier: Apache-2.0
import json
import sys

rows = [{"id": i, "name": "n%d" % (i * 7919 % 1013), "tags": ["t%d" % (i % k) for k in range(1, 6)]}
        for i in range(20000)]
json.dump(rows, sys.stdout)
