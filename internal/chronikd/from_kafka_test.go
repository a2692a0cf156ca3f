package chronikd

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// The command of docs/from-kafka.md that turns server.properties into YAML loses no setting of the
// file, keeps its value as Kafka reads it, and writes a file whose mistakes are listed together.
func TestPropertiesOfKafkaAreChecked(t *testing.T) {
	page, err := os.ReadFile("../../docs/from-kafka.md")
	must.OK(t, err)
	m := regexp.MustCompile("(?m)^(sed .*)\nchronikd (config check --config chronikd.yaml)$").FindSubmatch(page)
	if m == nil {
		t.Fatal("the page has no command that turns server.properties into YAML")
	}
	t.Chdir(t.TempDir())
	check := func(properties string) (code int, out, errs string) {
		t.Helper()
		must.OK(t, os.WriteFile("server.properties", []byte(properties), 0o600))
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", string(m[1])).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return chronikd(t, nil, strings.Fields(string(m[2]))...)
	}
	code, out, errs := check(`# num.io.threads=1
! num.network.threads=1

num.partitions = 8
  log.retention.hours=24
super.users=User:O'Neill;User:"quoted"
ssl.principal.mapping.rules=RULE:^CN=(.*?),OU=Users\\.x$/$1/,DEFAULT
`)
	for _, want := range []string{"num.partitions = 8", "log.retention.hours = 24", `super-users = User:O'Neill;User:"quoted"`,
		`tls.principal-rules = RULE:^CN=(.*?),OU=Users\.x$/$1/,DEFAULT`} {
		if !strings.Contains(out, want+" (chronikd.yaml)\n") {
			t.Errorf("%q is not set", want)
		}
	}
	if code != exit.OK {
		t.Errorf("code %d, %s", code, errs)
	}
	wrong := []string{`listener.name.sasl_ssl.ssl.keystore.location=/etc/kafka/server.jks`,
		`listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.example.Login required username="a" password="it's";`,
		`sasl.jaas.config=org.example.PlainLoginModule required username="a" password="b";`,
		`num.io.threads=8`, `log4j2.x=3`, `Upper.case=3`, `without.value`, `empty.value=`,
		`colon.name: x`, `blank.name x`, `num.partitions=many`}
	code, _, errs = check("# a comment\n\n" + strings.Join(wrong, "\n") + "\n")
	for _, line := range wrong {
		name := regexp.MustCompile(`^[^:= ]+`).FindString(line)
		if !strings.Contains(errs, "chronikd.yaml: "+name+": ") {
			t.Errorf("%s is not reported", name)
		}
	}
	if n := strings.Count(errs, "\n"); code != exit.Usage || n != len(wrong) {
		t.Errorf("code %d, %d lines, want %d:\n%s", code, n, len(wrong), errs)
	}
}
