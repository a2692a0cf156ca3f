package contexts

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/vfs"
)

// The variable with the path of the file, and its default below the user's configuration directory.
const (
	EnvFile  = "CHRONIKCTL_CONFIG"
	fileName = "chronik/chronikctl.yaml"
)

// maxFile bounds the file, in bytes.
const maxFile = 1 << 20

// File is the file of contexts.
type File struct {
	Path string
	// Current names the default context; empty for none.
	Current string
	// Contexts holds the settings of each context by name.
	Contexts map[string]map[string]string
}

// Secrets returns the names of a context's settings that are secrets themselves, not names of
// files, sorted.
func (f *File) Secrets(name string) (held []string) {
	for _, s := range All() {
		if s.Secret && f.Contexts[name][s.Name] != "" {
			held = append(held, s.Name)
		}
	}
	slices.Sort(held)
	return held
}

// document is the format of the file.
type document struct {
	Current  string                    `yaml:"current,omitempty"`
	Contexts map[string]map[string]any `yaml:"contexts,omitempty"`
}

// ErrNoPlace is why no file holds contexts. One of the working directory, which may be another
// user's, must not name the brokers that receive a password.
var ErrNoPlace = errors.New("there is no contexts file: HOME is not set to an absolute path; set it, or name the file with " + EnvFile)

// Open reads the file of contexts from where it is by default, or where a variable says.
func Open(getenv func(string) string) (*File, error) {
	path := getenv(EnvFile)
	if path == "" {
		dir := getenv("XDG_CONFIG_HOME")
		if home := getenv("HOME"); !filepath.IsAbs(dir) && filepath.IsAbs(home) {
			dir = filepath.Join(home, ".config")
		}
		if !filepath.IsAbs(dir) {
			return nil, ErrNoPlace
		}
		path = filepath.Join(dir, fileName)
	}
	return Load(path)
}

// Load reads the file; a missing file is empty. It checks all contexts, including unused ones.
func Load(path string) (*File, error) {
	f := &File{Path: path, Contexts: map[string]map[string]string{}}
	text, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("contexts file %s: %w; make it readable, or name another with %s", path, bare(err), EnvFile)
	}
	var d document
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&d); err != nil && !errors.Is(err, io.EOF) {
		reason := strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "\n", " ")
		return nil, fmt.Errorf("contexts file %s: %s; it holds current: NAME and contexts: {NAME: {brokers: HOST:PORT, …}}", path, reason)
	}
	f.Current = d.Current
	for _, name := range slices.Sorted(maps.Keys(d.Contexts)) {
		f.Contexts[name] = map[string]string{}
		for _, key := range slices.Sorted(maps.Keys(d.Contexts[name])) {
			value, err := scalar(d.Contexts[name][key])
			if err == nil {
				err = f.Set(name, key, value)
			}
			if err != nil {
				return nil, fmt.Errorf("contexts file %s: context %s: %w", path, name, err)
			}
		}
	}
	return f, nil
}

// CheckCurrent returns an error if the file lacks its current context. Load does not check this, so
// that commands can correct the file.
func (f *File) CheckCurrent() error {
	if _, ok := f.Contexts[f.Current]; f.Current != "" && !ok {
		return fmt.Errorf("contexts file %s: the current context %q is not in it; it has %s; chronikctl context use NAME selects one",
			f.Path, f.Current, f.list())
	}
	return nil
}

func read(path string) ([]byte, error) {
	r, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("is larger than %d bytes", maxFile)
	}
	return text, err
}

// scalar returns a YAML value as text; it joins a list with commas.
func scalar(v any) (string, error) {
	switch v := v.(type) {
	case string, bool, int:
		return fmt.Sprint(v), nil
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			s, ok := e.(string)
			if !ok {
				return "", fmt.Errorf("%v in a list is not text", e)
			}
			parts[i] = s
		}
		return strings.Join(parts, ","), nil
	}
	return "", fmt.Errorf("%v is neither a single value nor a list of them", v)
}

// named is what a context may be named.
var named = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,64}$`)

// checkName returns an error unless a context may have the name.
func checkName(context string) error {
	if !named.MatchString(context) {
		return fmt.Errorf("%q is not a valid name of a context; use 1 to 64 letters, digits, '.', '_' and '-'", context)
	}
	return nil
}

// Properties returns the path of a context's file for Kafka's tools, which `chronikd secure init`
// writes next to the file of contexts.
func Properties(file, context string) string {
	return filepath.Join(filepath.Dir(file), context+".properties")
}

// Free reports whether no context and no file for Kafka's tools has a name.
func (f *File) Free(name string) bool {
	_, taken := f.Contexts[name]
	_, err := os.Lstat(Properties(f.Path, name))
	return !taken && errors.Is(err, fs.ErrNotExist)
}

// Rename gives a context a name that no other has, with its file for Kafka's tools. If it is the
// current one, it stays so. Save must follow; if that fails, both can be repeated.
func (f *File) Rename(from, to string) error {
	settings, err := f.Context(from)
	if err == nil {
		err = checkName(to)
	}
	if err != nil {
		return err
	}
	if _, taken := f.Contexts[to]; taken {
		return fmt.Errorf("there is a context %s already; chronikctl context delete %s deletes it", to, to)
	}
	old, own := Properties(f.Path, from), Properties(f.Path, to)
	if _, err := os.Lstat(old); err == nil { // if not, an earlier call may have renamed it, before Save failed
		if !f.Free(to) {
			return fmt.Errorf("there is a file %s already, which would be replaced; move it away", own)
		}
		if err := os.Rename(old, own); err != nil {
			return err
		}
	}
	delete(f.Contexts, from)
	f.Contexts[to] = settings
	if f.Current == from {
		f.Current = to
	}
	return nil
}

// Set sets a setting of a context and creates the context if necessary. An empty value removes the
// setting.
func (f *File) Set(context, name, value string) error {
	if err := checkName(context); err != nil {
		return err
	}
	s, ok := Lookup(name)
	if !ok {
		if near, ok := text.Closest(name, Names()); ok {
			return fmt.Errorf("there is no setting %q; did you mean %s?", name, near)
		}
		return fmt.Errorf("there is no setting %q; there are %s", name, strings.Join(Names(), ", "))
	}
	if f.Contexts[context] == nil {
		f.Contexts[context] = map[string]string{}
	}
	if value == "" {
		delete(f.Contexts[context], name)
		return nil
	}
	if err := s.Check(value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	f.Contexts[context][name] = value
	return nil
}

// Context returns the settings of a context.
func (f *File) Context(name string) (map[string]string, error) {
	if c, ok := f.Contexts[name]; ok {
		return c, nil
	}
	return nil, fmt.Errorf("there is no context %q in %s; it has %s; chronikctl context set %s brokers=HOST:PORT creates it", name, f.Path,
		f.list(), name)
}

func (f *File) list() string {
	if len(f.Contexts) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(f.Contexts)), ", ")
}

// Save writes the file, readable by its owner only. After an error it has its former or its new
// content.
func (f *File) Save() error { return f.save(vfs.OS()) }

func (f *File) save(fsys vfs.FS) error {
	d := document{Current: f.Current, Contexts: map[string]map[string]any{}}
	for name, settings := range f.Contexts {
		d.Contexts[name] = map[string]any{}
		for key, value := range settings {
			d.Contexts[name][key] = value
		}
	}
	text, err := yaml.Marshal(d)
	if err != nil {
		return fmt.Errorf("contexts file %s: %w", f.Path, err)
	}
	if err := replace(fsys, f.Path, text); err != nil {
		return fmt.Errorf("write contexts file %s: %w; make its directory writable, or name another with %s", f.Path, bare(err), EnvFile)
	}
	return nil
}

// replace replaces a file durably by renaming a new one, whose name no other process has.
func replace(fsys vfs.FS, name string, text []byte) error {
	dir := filepath.Dir(name)
	if err := vfs.MakeDir(fsys, dir); err != nil {
		return err
	}
	fresh := filepath.Join(dir, ".chronikctl-"+rand.Text())
	err := vfs.WriteFile(fsys, fresh, text, true)
	if err == nil {
		err = fsys.Rename(fresh, name)
	}
	if err != nil {
		_ = fsys.Remove(fresh) // return the first error
		return err
	}
	return fsys.SyncDir(dir)
}

// bare removes the path from an error: the message already names it.
func bare(err error) error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
