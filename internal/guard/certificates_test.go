package guard

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/secureinit"
	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestTokensOfTheAdminPort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for text, want := range map[string]string{"short\n": "at least 32 are needed", strings.Repeat("x", 32) + "\n": ""} {
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		sum, err := AdminToken(&config.Config{AdminSecurity: config.AdminSecurity{TokenFile: path}})
		if (want == "") != (sum != nil && err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A reload that is asked for reaches the listeners without waiting for the next look.
func TestCertificatesReloadAtOnce(t *testing.T) {
	dir := t.TempDir()
	made, err := secureinit.New(dir, nil, nil)
	if err == nil {
		err = made.Write(time.Now())
	}
	must.OK(t, err)
	cfg, err := resolve.Load(config.Input{File: filepath.Join(dir, "chronikd.yaml"), ReadFile: os.ReadFile})
	must.OK(t, err)
	c, err := OpenCertificates(cfg, zap.NewNop())
	must.OK(t, err)
	before := c.listeners["clients"].Certificate().SerialNumber
	if _, err := secureinit.Renew(dir, nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	now, done := make(chan struct{}), make(chan struct{})
	go func() { defer close(done); c.Run(ctx, now, func() bool { return false }) }()
	now <- struct{}{}
	now <- struct{}{} // it is taken when the first has been done
	cancel()
	<-done
	if c.listeners["clients"].Certificate().SerialNumber.Cmp(before) == 0 {
		t.Error("the former certificate is still in use")
	}
}
