package lint

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// foreignTool finds Kafka's tools for which chronikctl has a command. An operator who follows a
// remedy or a page must not need a JVM.
var foreignTool = regexp.MustCompile(`\bkafka-(acls|broker-api-versions|cluster|configs|console-consumer|console-producer|` +
	`consumer-groups|delete-records|features|get-offsets|groups|leader-election|log-dirs|metadata-quorum|` +
	`reassign-partitions|topics|transactions)\b(\.sh)?`)

// foreignToolMeant says where such a tool may be named, and why: a file, or a file and a tool.
var foreignToolMeant = map[string]string{
	"docs/from-kafka.md":                                       "for people who know Kafka's tools",
	"docs/compatibility.md":                                    "what works with Kafka's tools",
	"docs/clients.md":                                          "which clients and tools are tested, and how each reports an error",
	"docs/security.md kafka-topics.sh":                         "the file with which Kafka's clients log in",
	"docs/chronikctl.md kafka-consumer-groups":                 "a format of files that both read",
	"internal/tools/ctl/group/export.go kafka-consumer-groups": "a format of files that both read",
}

// foreignTools returns the tools in a text.
func foreignTools(text string) []string {
	found := foreignTool.FindAllString(text, -1)
	slices.Sort(found)
	return slices.Compact(found)
}

// TestNoRemedyNamesAToolOfKafka checks messages, pages, alerts and panels.
func TestNoRemedyNamesAToolOfKafka(t *testing.T) {
	used := map[string]bool{}
	check := func(path, text string) {
		for _, tool := range foreignTools(text) {
			one, all := path+" "+tool, path
			if used[one], used[all] = true, true; foreignToolMeant[one] == "" && foreignToolMeant[all] == "" {
				t.Errorf("%s names %s: name the command of chronikctl, or give a reason in foreignToolMeant", path, tool)
			}
		}
	}
	for path, text := range pages(t) {
		if path != "CHANGELOG.md" {
			check(path, text)
		}
	}
	for path, file := range goFiles(t, func(path string) bool { return !strings.HasSuffix(path, "_test.go") }) {
		for _, m := range messages(file.syntax) {
			check(path, m.text)
		}
	}
	deployed, err := filepath.Glob("../../../deploy/*/*.y*ml")
	if err != nil || len(deployed) == 0 {
		t.Fatal("there are no files of a deployment: ", err)
	}
	for _, path := range deployed {
		text, err := os.ReadFile(path)
		must.OK(t, err)
		check(strings.TrimPrefix(path, "../../../"), string(text))
	}
	for where := range foreignToolMeant {
		if !used[where] {
			t.Errorf("foreignToolMeant has %s, which names no such tool any more", where)
		}
	}
}

func TestAToolOfKafkaIsFound(t *testing.T) {
	for text, want := range map[string]string{
		"run `kafka-cluster.sh unregister --id 3`":    "kafka-cluster.sh",
		"kafka-leader-election --election-type":       "kafka-leader-election",
		"kafka-python is a client, and kafka-ui also": "",
	} {
		if got := strings.Join(foreignTools(text), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Makefile, pages and scripts start scripts by their names.
func TestScriptsCanBeExecuted(t *testing.T) {
	for _, ext := range []string{".sh", ".py"} {
		walk(t, ext, func(file string) error {
			raw, err := os.ReadFile(file)
			if err != nil || !bytes.HasPrefix(raw, []byte("#!")) {
				return err
			}
			if s, err := os.Stat(file); err != nil || s.Mode()&0o111 == 0 {
				t.Errorf("%s begins with #!, and cannot be executed: chmod +x; %v", file, err)
			}
			return nil
		})
	}
}
