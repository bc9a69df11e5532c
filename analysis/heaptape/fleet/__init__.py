# SPDX-License-Identifier: Apache-2.0
"""The verb `fleet`: many traces on many machines."""
