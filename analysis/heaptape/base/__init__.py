# SPDX-License-Identifier: Apache-2.0
"""What every part uses: errors, arguments, files, words. Knows no trace, no result and no verb."""
