package host

import "testing"

// The facts about this machine are known.
func TestThisMachineIsRead(t *testing.T) {
	m := New()
	if f := m.Files(); f.Limit <= 0 || f.Open <= 0 || f.Open > f.Limit {
		t.Errorf("%+v", f)
	}
	if x := m.Memory(); x.Resident <= 0 {
		t.Errorf("%+v", x)
	}
	if p := m.MountedDir("log directory", t.TempDir()); p.Mount.Type == "" || p.Mount.Device == "" || len(p.Mount.Options) == 0 {
		t.Errorf("%+v", p)
	}
}
