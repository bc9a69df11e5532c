# SPDX-License-Identifier: Apache-2.0
javac -d . "$FILES/sources/JavaWork.java"
java -Xmx512m JavaWork
