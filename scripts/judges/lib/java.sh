# Sourced by judges that run Java programs, after lib.sh.

# class_path POM   sets classpath to the artefacts of POM and of what they need.
class_path() {
  local key
  need java mvn
  key="$cache/java-$(sha256sum <"$1" | cut -c 1-16)"
  if [ ! -e "$key" ]; then
    mvn -q -B -f "$1" dependency:build-classpath "-Dmdep.outputFile=$work/classpath" >"$work/maven.log" 2>&1 ||
      { tail -n 5 "$work/maven.log" >&2; missing "the artefacts of $1 could not be fetched: does this machine reach Maven Central?"; }
    cp "$work/classpath" "$key.$$" && mv "$key.$$" "$key"
  fi
  classpath="$(cat "$key")"
}

# java_program HEAP CLASS ARGUMENTS...   the command line of a Java program, in the array program.
java_program() {
  program=(java "-Xmx$1" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "-Dlog4j2.configurationFile=$lib/java/log4j2.properties" -cp "$classpath" "${@:2}")
}
