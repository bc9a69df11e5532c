javac -d . "$FILES/JavaWork.java"
java -Xmx512m JavaWork
