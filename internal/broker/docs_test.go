package broker

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/golden"
)

// unrouted are the APIs without a route, by the reason why any broker may serve them.
func unrouted() map[string][]kmsg.Key {
	return map[string][]kmsg.Key{
		"it is about the client's own connection": {kmsg.ApiVersions, kmsg.SASLHandshake, kmsg.SASLAuthenticate},
		"the answer is in the metadata, which all brokers have": {kmsg.Metadata, kmsg.FindCoordinator, kmsg.DescribeCluster,
			kmsg.DescribeTopicPartitions, kmsg.ListPartitionReassignments, kmsg.ListConfigResources, kmsg.DescribeACLs,
			kmsg.DescribeClientQuotas, kmsg.DescribeUserSCRAMCredentials},
		"any broker sends its change of the metadata to the metadata leader": {kmsg.CreateTopics, kmsg.DeleteTopics,
			kmsg.CreatePartitions, kmsg.CreateACLs, kmsg.DeleteACLs, kmsg.AlterConfigs, kmsg.AlterPartitionAssignments,
			kmsg.AlterClientQuotas, kmsg.AlterUserSCRAMCredentials, kmsg.UpdateFeatures},
		"for what only the metadata leader does, any broker asks it": {kmsg.ElectLeaders, kmsg.DescribeQuorum, kmsg.UnregisterBroker},
		"any broker takes the metrics of a client: the subscription follows from the metadata": {
			kmsg.GetTelemetrySubscriptions, kmsg.PushTelemetry},
	}
}

// An API has a route, or a reason for none.
func TestEveryAPIHasARouteOrAReason(t *testing.T) {
	reasons := map[int16]int{}
	for _, keys := range unrouted() {
		for _, key := range keys {
			reasons[int16(key)]++
		}
	}
	for _, a := range apis() {
		switch n := reasons[a.Key]; {
		case a.route == "" && n == 0:
			t.Errorf("%s has no route: give it one, or a reason in unrouted", a.Name())
		case a.route != "" && n > 0:
			t.Errorf("%s has a route: remove it from unrouted", a.Name())
		case n > 1:
			t.Errorf("%s has %d reasons in unrouted", a.Name(), n)
		}
		delete(reasons, a.Key)
	}
	for key := range reasons {
		t.Errorf("unrouted has %s, which is no API of the table", kmsg.NameForKey(key))
	}
}

// The documentation lists the APIs that are passed to other brokers.
func TestDocsListEveryRoute(t *testing.T) {
	var b strings.Builder
	b.WriteString("| API | served by |\n|---|---|\n")
	routes := map[string][]string{}
	for _, a := range apis() {
		routes[a.route] = append(routes[a.route], a.Name())
	}
	delete(routes, "") // the front serves them: unrouted
	for _, by := range []string{byLeader, byGroup, byTransaction, byShare, byBroker, byAll, byNone} {
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(routes[by], ", "), by)
		delete(routes, by)
	}
	if len(routes) > 0 {
		t.Errorf("the page lists no APIs served by %v", routes)
	}
	golden.Part(t, "../../docs/forwarding.md", "routes", b.String(), "go test ./internal/broker -run Docs")
}

// The documentation lists exactly the APIs of the table.
func TestDocsListEveryAPI(t *testing.T) {
	table, err := Table(0)
	must(t, err)
	var b strings.Builder
	b.WriteString("| key | API | versions |\n|---|---|---|\n")
	for _, a := range table.APIs() {
		fmt.Fprintf(&b, "| %d | %s | %d to %d |\n", a.Key, a.Name(), a.Min, a.Max)
	}
	golden.Part(t, "../../docs/compatibility.md", "apis", b.String(), "go test ./internal/broker -run Docs")
}

// The comment of each handler has the versions of the table. Of Produce it names those that are
// more than listed.
func TestCommentsHaveTheVersionsOfTheTable(t *testing.T) {
	var text strings.Builder
	files, err := filepath.Glob("*.go")
	must(t, err)
	for _, name := range files {
		b, err := os.ReadFile(name)
		must(t, err)
		text.Write(b)
	}
	table, err := Table(0)
	must(t, err)
	for _, a := range table.APIs() {
		from := a.Min
		if a.Key == int16(kmsg.Produce) {
			from = 3
		}
		want := fmt.Sprintf("%d (?:to|and) %d", from, a.Max)
		if from == a.Max {
			want = fmt.Sprint(from)
		}
		want = fmt.Sprintf(`(?m)^// \w+ \(key %d\), versions? %s\b`, a.Key, want)
		if !regexp.MustCompile(want).MatchString(text.String()) {
			t.Errorf("%s: no comment says %s", a.Name(), want)
		}
	}
}

// missing are the APIs that a broker of Kafka 4.4 lists and this one does not, by the reason.
func missing() map[string][]int16 {
	return map[string][]int16{
		"A delegation token is a password that the brokers make for another client, under a secret key that all of them have. " +
			"A user for each application (SCRAM) or short-lived tokens of an issuer (OAUTHBEARER) serve for the same": {38, 39, 40, 41},
		"The voters follow from the lists of brokers: [change the voters](cluster.md#change-the-voters)": {80, 81},
		"The heartbeat of a streams group never asks for a description, so no client sends it. Kafka asks only with " +
			"`group.streams.topology.description.plugin.class`": {93},
		"There are no controllers besides the brokers: `chronikctl broker unregister`. `kafka-cluster unregister-controller` reports that " +
			"the cluster does not support it": {94},
	}
}

// The documentation gives a reason for each API of Kafka 4.4 that is missing, and all others have
// Kafka's versions.
func TestDocsListEveryMissingAPI(t *testing.T) {
	table, err := Table(0)
	must(t, err)
	type kafkaAPI struct {
		name     string
		min, max int16
	}
	kafka := map[int16]kafkaAPI{}
	text, err := os.ReadFile("testdata/kafka-4.4-apis.txt")
	must(t, err)
	for line := range strings.Lines(string(text)) {
		var key int16
		var a kafkaAPI
		if strings.HasPrefix(line, "#") {
			continue
		}
		_, err := fmt.Sscan(line, &key, &a.name, &a.min, &a.max)
		must(t, err)
		kafka[key] = a
	}
	for _, a := range table.APIs() {
		want, ok := kafka[a.Key]
		if a.Key == int16(kmsg.Produce) {
			want.min = 3 // below, it is listed for librdkafka only
		}
		if !ok || a.Min != want.min || a.Max != want.max {
			t.Errorf("%s has versions %d to %d, in Kafka %d to %d", a.Name(), a.Min, a.Max, want.min, want.max)
		}
		delete(kafka, a.Key)
	}
	type row struct {
		keys   []int16
		reason string
	}
	var rows []row
	for reason, keys := range missing() {
		rows = append(rows, row{keys, reason})
	}
	slices.SortFunc(rows, func(x, y row) int { return cmp.Compare(x.keys[0], y.keys[0]) })
	var b strings.Builder
	b.WriteString("| key | API | reason |\n|---|---|---|\n")
	for _, r := range rows {
		var keys, names []string
		for _, key := range r.keys {
			if kafka[key].name == "" {
				t.Errorf("key %d is not missing: remove it from the function missing", key)
			}
			keys, names = append(keys, fmt.Sprint(key)), append(names, kafka[key].name)
			delete(kafka, key)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", strings.Join(keys, ", "), strings.Join(names, ", "), r.reason)
	}
	for key, a := range kafka {
		t.Errorf("%s (%d) is missing without a reason", a.name, key)
	}
	golden.Part(t, "../../docs/compatibility.md", "missing apis", b.String(), "go test ./internal/broker -run Docs")
}
