package contexts

import (
	"bytes"
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
)

// Paths of the file: the variable that names it, and where it is without.
const (
	EnvFile  = "CHRONIKCTL_CONFIG"
	fileName = "chronik/chronikctl.yaml"
)

// maxFile bounds the file, in bytes.
const maxFile = 1 << 20

// File is the file of contexts.
type File struct {
	Path string
	// Current names the context that is used where nobody says otherwise; empty
	// for none.
	Current string
	// Contexts holds the settings of each context by their names.
	Contexts map[string]map[string]string
}

// document is what the file looks like.
type document struct {
	Current  string                    `yaml:"current,omitempty"`
	Contexts map[string]map[string]any `yaml:"contexts,omitempty"`
}

// Path is where the file is: EnvFile, else below the user's configuration
// directory.
func Path(getenv func(string) string) string {
	if p := getenv(EnvFile); p != "" {
		return p
	}
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, fileName)
	}
	return filepath.Join(getenv("HOME"), ".config", fileName)
}

// Load reads the file; one that is missing is empty. Everything in it is
// checked, contexts that are not used too.
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

// CheckCurrent refuses a file whose current context is not in it; who changes the
// file may put that right.
func (f *File) CheckCurrent() error {
	if _, ok := f.Contexts[f.Current]; f.Current != "" && !ok {
		return fmt.Errorf("contexts file %s: current is %q, which is no context of it; it has %s; chronikctl context use NAME chooses one", f.Path, f.Current, f.list())
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

// scalar is a YAML value as the other sources write it; a list of them is joined
// by commas.
func scalar(v any) (string, error) {
	switch v := v.(type) {
	case string, bool, int:
		return fmt.Sprint(v), nil
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			s, ok := e.(string)
			if !ok {
				return "", fmt.Errorf("%v in a list is no text", e)
			}
			parts[i] = s
		}
		return strings.Join(parts, ","), nil
	}
	return "", fmt.Errorf("%v is neither a single value nor a list of them", v)
}

// Set sets a setting of a context, which is made where it is missing; an empty
// value removes the setting.
func (f *File) Set(context, name, value string) error {
	if !regexp.MustCompile(`^[a-zA-Z0-9._-]{1,64}$`).MatchString(context) {
		return fmt.Errorf("%q is no name of a context; use 1 to 64 letters, digits, '.', '_' and '-'", context)
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
	return nil, fmt.Errorf("there is no context %q in %s; it has %s; chronikctl context set %s brokers=HOST:PORT makes it", name, f.Path, f.list(), name)
}

func (f *File) list() string {
	if len(f.Contexts) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(f.Contexts)), ", ")
}

// Save writes the file, whole or not at all, readable by its owner only.
func (f *File) Save() error {
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
	if err := replace(f.Path, text); err != nil {
		return fmt.Errorf("contexts file %s cannot be written: %w; make its directory writable, or name another with %s", f.Path, bare(err), EnvFile)
	}
	return nil
}

// replace puts text into the place of a file by a rename.
func replace(path string, text []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	t, err := os.CreateTemp(dir, ".chronikctl-*") // its mode is 0600
	if err != nil {
		return err
	}
	_, err = t.Write(text)
	err = errors.Join(err, t.Sync(), t.Close())
	if err == nil {
		err = os.Rename(t.Name(), path)
	}
	if err != nil {
		_ = os.Remove(t.Name()) // the first error is the one to tell
	}
	return err
}

// bare takes the path out of an error: the message names it already.
func bare(err error) error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
