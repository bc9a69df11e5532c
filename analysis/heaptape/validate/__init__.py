# SPDX-License-Identifier: Apache-2.0
"""The verb `validate`: predictions beside the real program."""
