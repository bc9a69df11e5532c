# SPDX-License-Identifier: Apache-2.0
"""Why RSS is above the live bytes, and which blocks hold it there: from snapshots of a replayed heap."""
