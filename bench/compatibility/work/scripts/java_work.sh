javac -d . "$FILES/sources/JavaWork.java"
java -Xmx512m JavaWork
