package secureinit

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/cli/contexts"
	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// Properties are Latin-1 with escapes: a directory may have any name.
func TestPropertiesAreEscaped(t *testing.T) {
	if got := escapeProperty("/home/jürgen/C:\\x/\U0001F600"); got != `/home/j\u00fcrgen/C:\\x/\ud83d\ude00` {
		t.Error(got)
	}
}

// A password may have any characters; Java reads the settings first as properties, then as JAAS.
func TestPasswordsAreEscapedTwice(t *testing.T) {
	got := clientProperties("/d", []nodePlan{{}}, `a"b\c`)
	if want := `username="admin" password="a\\"b\\\\c";`; !strings.Contains(got, want) {
		t.Errorf("%s\nhas no %s", got, want)
	}
}

// The context has the admin ports where the configurations let the brokers listen, with their
// token. On the machines of several brokers it is on their loopback, so there is none.
func TestTheContextHasAnAdminPortThatCanBeReached(t *testing.T) {
	for _, c := range []struct{ nodes, want string }{
		{"", "https://" + config.DefaultAdminListen},
		{"a.example.com", "https://" + config.DefaultAdminListen},
		{"a.example.com:9200", "https://localhost:9201"},
		{"127.0.0.1:9200,127.0.0.1:9300,127.0.0.1:9400", "https://127.0.0.1:9201,https://127.0.0.1:9301,https://127.0.0.1:9401"},
		{"127.0.0.1:9200,127.0.0.2:9200,LOCALHOST:9400", "https://127.0.0.1:9201,https://127.0.0.2:9201,https://localhost:9401"},
		{"a.example.com,b.example.com,c.example.com", contexts.Off},
		{"127.0.0.1:9200,b.example.com:9200,c.example.com:9200", contexts.Off},
	} {
		plans, err := plan("/d", nil, strings.FieldsFunc(c.nodes, func(r rune) bool { return r == ',' }))
		must.OK(t, err)
		token := filepath.Join(plans[0].dir, "admin.token")
		if c.want == contexts.Off {
			token = ""
		}
		if at, file := adminOf(plans); at != c.want || file != token {
			t.Errorf("%q: %s, %s", c.nodes, at, file)
		}
	}
}
