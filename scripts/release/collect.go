package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// collect compiles the programs and writes the files that archives and packages share to the
// staging directory: manual pages, completions, the configuration file, the documentation and the
// licenses of what is linked in.
func (r *release) collect() error {
	if err := os.RemoveAll(filepath.Join(".cache", "release")); err != nil {
		return err
	}
	targets := r.platforms
	if !slices.Contains(targets, host()) {
		targets = append(slices.Clone(targets), host())
	}
	for _, p := range targets {
		if err := r.compile(p); err != nil {
			return err
		}
	}
	steps := []func() error{r.manual, r.completions, r.configuration, r.documentation, r.changelogs, r.licenses, r.deployment}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// manual writes the manual pages, compressed.
func (r *release) manual() error {
	dir := filepath.Join(stage, "man")
	if _, err := outputWith(r.environment(host()), "go", "run", "-trimpath", "-buildvcs=false", "./scripts/man", r.stamp, dir); err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		if err := put(page+".gz", compressed(text)); err != nil {
			return err
		}
		if err := os.Remove(page); err != nil {
			return err
		}
	}
	return nil
}

// completions writes what chronikd and chronikctl print for three shells.
func (r *release) completions() error {
	for _, tool := range []string{"chronikd", "chronikctl"} {
		for shell, name := range map[string]string{"bash": tool, "zsh": "_" + tool, "fish": tool + ".fish"} {
			text, err := output(filepath.Join(host().bin(), tool), "completion", shell)
			if err != nil {
				return err
			}
			if err := put(filepath.Join(stage, "completion", shell, name), []byte(text+"\n")); err != nil {
				return err
			}
		}
	}
	return nil
}

// configuration writes the configuration file with every setting, for the service.
func (r *release) configuration() error {
	const head = "# The configuration of the service chronikd; after a change: systemctl restart chronikd.\n" +
		"# `chronikd config check --config FILE` finds mistakes. chronikd.yaml(5).\n\n"
	chronikd := filepath.Join(host().bin(), "chronikd")
	defaults, err := output(chronikd, "config", "print-defaults")
	if err != nil {
		return err
	}
	directory := regexp.MustCompile(`(?m)^# data\.dir: .*$`)
	if len(directory.FindAllString(defaults, -1)) != 1 {
		return fmt.Errorf("chronikd config print-defaults has no line %q", directory)
	}
	path := filepath.Join(stage, "chronikd.yaml")
	text := head + directory.ReplaceAllString(defaults, "data.dir: /var/lib/chronik") + "\n"
	if err := put(path, []byte(text)); err != nil {
		return err
	}
	_, err = output(chronikd, "config", "check", "--config", path)
	return err
}

// documentation copies the pages with their paths in the repository, so that their links work.
func (r *release) documentation() error {
	return tracked(filepath.Join(stage, "doc"), ":(glob)*.md", ":(glob)docs/*.md")
}

// deployment copies the files of deploy that packages install as a tree, with modes of their own.
func (r *release) deployment() error {
	return tracked(stage, "deploy/grafana/provisioning")
}

// tracked copies files that git tracks, chosen by a pathspec, below dir.
func tracked(dir string, specs ...string) error {
	for _, spec := range specs {
		files, err := trackedFiles(spec, "")
		if err != nil {
			return err
		}
		for _, f := range files {
			if err := put(filepath.Join(dir, f.name), f.data); err != nil {
				return err
			}
		}
	}
	return nil
}

// changelogs writes the changelog, and Debian's, which names the version of the package.
func (r *release) changelogs() error {
	log, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	settings, err := os.ReadFile(settingsPath)
	if err != nil {
		return err
	}
	maintainer := regexp.MustCompile(`(?m)^maintainer: (.+)$`).FindSubmatch(settings)
	if maintainer == nil {
		return fmt.Errorf("%s has no maintainer", settingsPath)
	}
	debian := fmt.Sprintf("chronik (%s-1) unstable; urgency=medium\n\n  * What changed is in /usr/share/doc/chronik/changelog.gz.\n\n -- %s  %s\n",
		r.packageVersion(), maintainer[1], r.time.Format("Mon, 02 Jan 2006 15:04:05 -0700"))
	return errors.Join(
		put(filepath.Join(stage, "debian", "changelog.gz"), compressed(log)),
		put(filepath.Join(stage, "debian", "changelog.Debian.gz"), compressed([]byte(debian))),
	)
}

// licenses writes the notices of Go and of every module that is linked in: their licenses require
// it.
func (r *release) licenses() error {
	modules := make(map[string]bool)
	for _, p := range r.platforms {
		const format = "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}"
		list, err := outputWith(r.environment(p), "go", "list", "-deps", "-f", format, "./cmd/...")
		if err != nil {
			return err
		}
		for line := range strings.Lines(list) {
			modules[strings.TrimSuffix(line, "\n")] = true
		}
	}
	delete(modules, "")
	sorted := make([]string, 0, len(modules)+1)
	for m := range modules {
		sorted = append(sorted, m)
	}
	slices.Sort(sorted)
	root, err := outputWith(r.environment(host()), "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	var all bytes.Buffer
	for _, m := range append([]string{"Go " + r.goVersion + "\t" + root}, sorted...) {
		module, dir, _ := strings.Cut(m, "\t")
		if err := notices(&all, module, dir); err != nil {
			return err
		}
	}
	return put(filepath.Join(stage, "doc", "third-party.gz"), compressed(all.Bytes()))
}

// notices appends the license files of a module.
func notices(all *bytes.Buffer, module, dir string) error {
	licensed := false
	for _, kind := range []string{"LICENSE", "LICENCE", "COPYING", "NOTICE", "PATENTS"} {
		files, err := filepath.Glob(filepath.Join(dir, kind+"*"))
		if err != nil {
			return err
		}
		for _, file := range files {
			if in, err := os.Stat(file); err != nil || in.IsDir() {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			licensed = licensed || kind != "NOTICE" && kind != "PATENTS"
			fmt.Fprintf(all, "==== %s: %s\n\n%s\n", module, filepath.Base(file), text)
		}
	}
	if !licensed {
		return fmt.Errorf("%s has no license file", module)
	}
	return nil
}

// put writes a file that everyone may read, whatever the umask is, and its directories.
func put(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return err
	}
	for dir := filepath.Dir(path); strings.HasPrefix(dir, stage); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	return os.Chmod(path, 0o644)
}

// compressed returns data in gzip's format, without a name and a time.
func compressed(data []byte) []byte {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(data)
	}
	if err = errors.Join(err, z.Close()); err != nil {
		panic(err) // a buffer accepts all bytes, and the level is valid
	}
	return b.Bytes()
}
