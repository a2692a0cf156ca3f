package resolve

import (
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// DescribeConfigs shows clients the daemon's own settings under Kafka's names.
func TestStaticConfigsSayWhatTheDaemonWasTold(t *testing.T) {
	file := "listeners: [{name: in, listen: ':1', advertise: 'h:1'}, {name: out, listen: ':2'}]\nnum.partitions: 3\n"
	cfg, err := Load(config.Input{File: "f", ReadFile: func(string) ([]byte, error) { return []byte(file), nil },
		Flags: map[string]string{config.KeyWALProfile: "low", config.KeyProduceProfile: "extreme"}})
	must.OK(t, err)
	got := Static(cfg)
	for name, want := range map[string]string{"listeners": "in://:1,out://:2", "advertised.listeners": "in://h:1", "num.partitions": "3",
		"chronik.durability.profile": "low", "chronik.produce.profile": "extreme"} {
		if got[name] != want {
			t.Errorf("%s = %q, want %q", name, got[name], want)
		}
	}
	if b, err := Registry(cfg.Durability).ResolveBroker(got); err != nil || b.NumPartitions != 3 || b.ProduceProfile != "extreme" {
		t.Errorf("resolved: %+v, %v", b, err)
	}
}

// The variable and the flag of every setting identify it.
func TestEverySettingHasItsOwnVariable(t *testing.T) {
	cfg, err := Load(config.Input{})
	must.OK(t, err)
	seen := make(map[string]string)
	for _, d := range slices.Concat(config.Own(), Settings(Registry(cfg.Durability))) {
		env := config.EnvName(d.Name)
		if seen[env] != "" || env == config.EnvFile {
			t.Errorf("%s and %s are both %s", d.Name, seen[env], env)
		}
		seen[env] = d.Name
	}
}
