package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A file is an entry of a tar archive. A name that ends in / is a directory.
type file struct {
	name string
	data []byte
	exec bool
	user int // also the group
}

// tarOf returns a tar archive of files and of the directories that contain them, sorted by name.
func tarOf(files []file, at time.Time) ([]byte, error) {
	known := make(map[string]bool)
	all := slices.Clone(files)
	for _, f := range files {
		known[f.name] = true
	}
	for _, f := range files {
		for dir := path.Dir(strings.TrimSuffix(f.name, "/")); dir != "."; dir = path.Dir(dir) {
			if !known[dir+"/"] {
				known[dir+"/"] = true
				all = append(all, file{name: dir + "/"})
			}
		}
	}
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range all {
		h := &tar.Header{Name: f.name, Typeflag: tar.TypeReg, Size: int64(len(f.data)), Mode: 0o644, Uid: f.user, Gid: f.user, ModTime: at}
		switch {
		case strings.HasSuffix(f.name, "/"):
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		case f.exec:
			h.Mode = 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// archives writes chronik-VERSION-OS-ARCH.tar.gz: the programs, their manual pages and completions,
// the configuration file of the service, the documentation, and the files of deploy.
func (r *release) archives() error {
	for _, p := range r.platforms {
		top := fmt.Sprintf("chronik-%s-%s/", r.version, p)
		files, err := r.program(p, top+"bin/", programs)
		if err != nil {
			return err
		}
		for from, to := range map[string]string{"man": "man/", "completion": "completion/", "doc": "", "chronikd.yaml": "chronikd.yaml"} {
			more, err := below(filepath.Join(stage, from), top+to)
			if err != nil {
				return err
			}
			files = append(files, more...)
		}
		specs := []string{"LICENSE", "docs/page.png", "deploy/docker", "deploy/grafana", "deploy/prometheus", "deploy/systemd"}
		for _, spec := range specs {
			more, err := trackedFiles(spec, top)
			if err != nil {
				return err
			}
			files = append(files, more...)
		}
		content, err := tarOf(files, r.time)
		if err != nil {
			return err
		}
		if err := put(r.name("chronik-%s-%s.tar.gz", r.version, p), compressed(content)); err != nil {
			return err
		}
	}
	return nil
}

// program returns programs of a platform as files below a directory.
func (r *release) program(p platform, dir string, names []string) ([]file, error) {
	var files []file
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(p.bin(), name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: dir + name, data: data, exec: true})
	}
	return files, nil
}

// below returns the file at root, or all files below it, with their names below to. The manual
// pages get a directory for each section, as man expects it.
func below(root, to string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(root, func(at string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		name := to
		if at != root {
			relative, err := filepath.Rel(root, at)
			if err != nil {
				return err
			}
			if filepath.Base(root) == "man" {
				relative = "man" + strings.TrimSuffix(relative, ".gz")[len(strings.TrimSuffix(relative, ".gz"))-1:] + "/" + relative
			}
			name += filepath.ToSlash(relative)
		}
		files = append(files, file{name: name, data: data})
		return nil
	})
	return files, err
}

// trackedFiles returns the files that git tracks at a pathspec, with their paths below to.
func trackedFiles(spec, to string) ([]file, error) {
	list, err := output("git", "ls-files", "--", spec)
	if err != nil {
		return nil, err
	}
	if list == "" {
		return nil, fmt.Errorf("git tracks no file %s", spec)
	}
	var files []file
	for name := range strings.Lines(list) {
		name = strings.TrimSuffix(name, "\n")
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: to + name, data: data})
	}
	return files, nil
}

// checksums writes SHA256SUMS of all results, for sha256sum --check.
func (r *release) checksums() error {
	slices.Sort(r.written)
	var b strings.Builder
	for _, name := range r.written {
		data, err := os.ReadFile(filepath.Join(r.into, name))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		fmt.Fprintf(&b, "%s  %s\n", hex.EncodeToString(sum[:]), name)
	}
	return put(r.name("SHA256SUMS"), []byte(b.String()))
}
