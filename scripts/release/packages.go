package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

// settingsPath is the description of the packages.
const settingsPath = "deploy/packages/nfpm.yaml"

// packageVersion returns the version in the form of Debian and RPM: what sorts before a release has
// a tilde.
func (r *release) packageVersion() string { return strings.Replace(r.version, "-", "~", 1) }

// packages writes a .deb and an .rpm for each processor.
func (r *release) packages() error {
	for _, p := range r.linux() {
		files, err := r.program(p, "", programs)
		if err != nil {
			return err
		}
		for _, f := range files {
			path := filepath.Join(stage, "bin", f.name)
			if err := put(path, f.data); err != nil {
				return err
			}
		}
		values := map[string]string{"VERSION": r.packageVersion(), "ARCH": p.arch}
		config, err := nfpm.ParseFileWithEnvMapping(settingsPath, func(name string) string { return values[name] })
		if err != nil {
			return fmt.Errorf("%s: %w", settingsPath, err)
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := r.pack(&config, format); err != nil {
				return fmt.Errorf("%s of %s: %w", format, p, err)
			}
		}
	}
	return nil
}

// pack writes one package.
func (r *release) pack(config *nfpm.Config, format string) error {
	info, err := config.Get(format)
	if err != nil {
		return err
	}
	info.MTime = r.time
	if err := nfpm.PrepareForPackager(nfpm.WithDefaults(info), format); err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	path := r.name("%s", packager.ConventionalFileName(info))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(packager.Package(info, f), f.Close(), os.Chmod(path, 0o644))
}
