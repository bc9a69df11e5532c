# SPDX-License-Identifier: Apache-2.0
# A web server's log, read into hashes and told as a report.
. "$FILES/recipe.sh"
cp "$FILES/log_report.pl" .
perl "$FILES/make_access_log.pl" 9500 >access.log
PERL_HASH_SEED=0 record perl log_report.pl access.log
