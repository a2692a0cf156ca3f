package command

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/pkg/chronik"
)

// misspelt returns command lines that are wrong in themselves.
func misspelt() []string {
	return []string{
		"--concurency 3", "--zz", "-z", "--acks", "what", "limts", "help nothing", "groups what", "groups rebalanc", "limits x",
		"compare x", "compare -- x",
		"-c many", "-d 5", "-d soon", "--rate much", "--verify=maybe", "--topic-config a",
		"--bootstrap-servers x", "--bootstrap-servers=", "--topic=", "--mode x", "--clients x", "--batched --clients own",
		"-c -1", "-c 99999",
		"--pipeline -1", "--pipeline 9999", "--pipeline 2 --clients shared", "-s -1", "-s 3 --verify", "-s 3 --mode e2e",
		"--acks 2", "--compression zip",
		"--rate -1", "--rate 5 --mode consume", "--warmup -1s", "-d 0s", "--verify --mode consume", "--fetch-max-bytes 1",
		"--server-pid -1",
		"--partitions 0", "--replication-factor 0", "--topic x --topic-config a=1", "--create-topic --topic-config =1",
		"-c -1 -d 0s", "-c 0", "--pipeline 0", "--admin x",
		"limits --no-echo", "limits --no-echo --dir /nowhere/at/all", "limits --no-echo --dir DIR --file-size 1",
		"limits --no-echo --dir DIR --disk-duration 0s",
		"limits -c 0", "limits --pipeline 99999", "limits -s -1", "limits -d 0s", "limits --duration soon",
		"echo-server --listen x", "echo-server --listen TAKEN",
		"compare", "compare --a NOBODY", "compare --a x --b y", "compare --a NOBODY --b NOBODY --name-b A",
		"compare --a NOBODY --b NOBODY --rounds 0",
		"compare --a NOBODY --b NOBODY --discard -1", "compare --a NOBODY --b NOBODY --pause -1s",
		"compare --a NOBODY --b NOBODY --echo --mode consume",
		"compare --a NOBODY --b NOBODY --set-b acks", "compare --a NOBODY --b NOBODY --set-b ack=1",
		"compare --a NOBODY --b NOBODY --set-a acks=7",
		"compare --a NOBODY --b NOBODY --set-a concurrency=x", "compare --a NOBODY --b NOBODY -d 0s",
		"compare --a NOBODY --b NOBODY --bootstrap-servers NOBODY",
		"compare --a NOBODY --b NOBODY -- --ack 1",
		"groups heartbeats x", "groups heartbeats --protocol x", "groups heartbeats --members 0",
		"groups heartbeats --groups 0", "groups heartbeats --bootstrap-servers x",
		"groups heartbeats --topic=", "groups heartbeats --duration 0s", "groups rebalance --members 0", "groups rebalance --partitions -1",
		"groups commits --duration 0s", "groups commits --groups 0",
		"txn x", "txn --a x", "txn --b=", "txn --loads one,two", "txn --rounds 0", "txn --name-b A --b NOBODY", "txn -s 0", "txn -d 0s",
		"txn --pid-a -1",
		"share x", "share --a x", "share --loads one", "share --rate 0", "share -s 7", "share --pid-a -1",
		"connections x", "connections logins --bootstrap-servers x", "connections logins -c 0", "connections logins -d 0s",
		"connections logins --user x", "connections logins --user x --password-file /nowhere", "connections logins --tls-ca /nowhere",
		"connections logins --warmup -1s", "connections idle", "connections idle --server-pid 1 --rest -1s",
		"connections idle --server-pid 999999999", "--tls-ca /nowhere", "--tls-ca /dev/null",
	}
}

// unanswered returns command lines that find no broker, or another server.
func unanswered() []string {
	return []string{
		"--bootstrap-servers NOBODY", "--bootstrap-servers BROKER --admin BROKER",
		"--bootstrap-servers BROKER --topic a --admin OTHER",
		"--bootstrap-servers BROKER --mode consume --topic chronik-bench2", "--bootstrap-servers no.such.host.invalid:9092",
		"groups commits --bootstrap-servers NOBODY",
		"compare --a NOBODY --b NOBODY",
		"--bootstrap-servers BROKER --topic none", "--bootstrap-servers BROKER --topic a!b --create-topic",
		"--bootstrap-servers BROKER --topic x --create-topic --replication-factor 3",
		"--bootstrap-servers BROKER --topic x --create-topic --topic-config segment.byte=1",
		"--bootstrap-servers BROKER --topic x --create-topic --topic-config segment.bytes=1",
		"--bootstrap-servers BROKER --topic a --create-topic --partitions 7", "--bootstrap-servers BROKER --topic a --mode consume",
		"--bootstrap-servers BROKER --topic a --server-pid 999999999",
		"groups commits --bootstrap-servers BROKER --topic a --partitions 7",
		"connections logins --bootstrap-servers NOBODY", "connections logins --bootstrap-servers BROKER --user x --password-file EMPTY",
	}
}

// Every error that a user can cause states what happened, where, and what to do.
// testdata/errors.golden has the texts for review.
func TestMessages(t *testing.T) {
	b, other := chronik.StartTest(t, chronik.Options{Admin: "127.0.0.1:0"}), chronik.StartTest(t, chronik.Options{Admin: "127.0.0.1:0"})
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer taken.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
	must.OK(t, err)
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, "a"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	at := strings.NewReplacer(
		"DIR",
		dir,
		"EMPTY",
		os.DevNull,
		"NOBODY",
		nobody,
		"TAKEN",
		taken.Addr().String(),
		"BROKER",
		b.Addr(),
		"OTHER",
		other.AdminAddr(),
		"ADMIN",
		b.AdminAddr(),
	)
	back := strings.NewReplacer(
		dir,
		"DIR",
		nobody,
		"NOBODY",
		taken.Addr().String(),
		"TAKEN",
		b.Addr(),
		"BROKER",
		other.AdminAddr(),
		"OTHER",
		b.AdminAddr(),
		"ADMIN",
	)
	var all strings.Builder
	for _, line := range slices.Concat(misspelt(), unanswered()) {
		status, _, errs := call(strings.Fields(at.Replace(line))...)
		for _, l := range strings.Split(strings.TrimSuffix(errs, "\n"), "\n") {
			if status == 0 || !strings.HasPrefix(l, "chronik-bench: ") {
				t.Errorf("%s: status %d, error %q", line, status, l)
			}
		}
		fmt.Fprintf(&all, "$ chronik-bench %s\n%s[%d]\n\n", line, passing(back.Replace(errs)), status)
	}
	golden.File(t, filepath.Join("testdata", "errors.golden"), all.String(), "go test ./internal/tools/bench/command -run Messages")
}

// passing replaces the parts that differ in each run.
func passing(text string) string {
	return regexp.MustCompile(`lookup no.such.host.invalid[^;]*;`).ReplaceAllString(text, "lookup no.such.host.invalid: …;")
}
