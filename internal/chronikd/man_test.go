package chronikd

import (
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// The manual is complete: it has every setting, flag and command.
func TestTheManualHasEverySettingAndCommand(t *testing.T) {
	pages, err := Manual("v1")
	must.OK(t, err)
	text := make(map[string]string)
	for i := range pages {
		var b strings.Builder
		must.OK(t, pages[i].Write(&b))
		text[pages[i].File()] = strings.ReplaceAll(b.String(), `\-`, "-")
	}
	cfg, err := resolve.Load(config.Input{})
	must.OK(t, err)
	for _, d := range resolve.Settings(resolve.Registry(cfg.Durability)) {
		if !strings.Contains(text["chronikd.yaml.5"], "\n.B "+d.Name+"\n") {
			t.Errorf("chronikd.yaml(5) lacks %s", d.Name)
		}
	}
	for _, want := range []string{"chronikd health", "chronikd config check", "--data-dir", "--live", "GOMEMLIMIT"} {
		if !strings.Contains(text["chronikd.8"], want) {
			t.Errorf("chronikd(8) lacks %s", want)
		}
	}
}
