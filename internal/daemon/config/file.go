package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"

	"github.com/chronik-io/chronik/pkg/durability"
)

// maxListeners is the maximum length of the file's list.
const maxListeners = 64

// file reads the YAML file: single values, listeners and profiles.
func (l *loader) file(in Input) {
	l.cfg.Listeners = []Listener{{Name: "default"}}
	top := l.parse(in)
	for _, key := range slices.Sorted(maps.Keys(top)) {
		if key == KeyListen || key == KeyAdvertise {
			l.add(in.File, key, "in the file this belongs to the first entry of `listeners:`; write listeners: [{"+key+": HOST:PORT}]")
			continue
		}
		if key == keyListeners || key == keyProfiles {
			continue
		}
		if _, known := l.defs[key]; !known {
			if name := l.split(key, top[key]); name != "" {
				l.add(in.File, key, "a name with dots is one key; write "+name+": VALUE on one line")
				continue
			}
			l.add(in.File, key, l.unknown(key, append([]string{keyListeners, keyProfiles}, l.names...)))
			continue
		}
		value, err := scalar(top[key])
		if err != nil {
			l.add(in.File, key, err.Error())
			continue
		}
		l.put(in.File, key, value)
	}
	if v, ok := top[keyListeners]; ok {
		l.fileListeners(in.File, v)
	}
	l.fileProfiles(in, top[keyProfiles])
}

// split returns the setting that nested keys were meant as, because YAML users may expect the parts
// of a name to be levels; "" if there is none.
func (l *loader) split(key string, v any) string {
	m, ok := v.(map[string]any)
	if !ok {
		_, known := l.defs[key]
		if known {
			return key
		}
		return ""
	}
	for _, below := range slices.Sorted(maps.Keys(m)) {
		if name := l.split(key+"."+below, m[below]); name != "" {
			return name
		}
	}
	return ""
}

// parse returns the top level of the file, nil if there is none.
func (l *loader) parse(in Input) map[string]any {
	if in.File == "" {
		return nil
	}
	text, err := in.ReadFile(in.File)
	if err != nil {
		cause := err
		if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
			cause = pe.Err
		}
		l.add(in.File, "", fmt.Sprintf("cannot read the configuration file: %v; check --config and %s", cause, EnvFile))
		return nil
	}
	if documents(text) > 1 {
		l.add(in.File, "", "has more than one document, of which only the first would be read; remove the lines that begin with ---")
		return nil
	}
	k := koanf.New(separator)
	if err := k.Load(rawbytes.Provider(text), yaml.Parser()); err != nil {
		l.add(in.File, "", notSettings(err))
		return nil
	}
	return k.Raw()
}

// notSettings rewords the parser's error about a file that it cannot read.
func notSettings(err error) string {
	text := strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " ")
	text, typed := strings.CutPrefix(text, "unmarshal errors: ")
	switch {
	case strings.Contains(text, "already defined"):
		return text + "; remove one of the two"
	case typed:
		return "has no settings at its top level; write one `name: value` on each line, as `chronikd config print-defaults` does"
	default:
		return "is not valid YAML: " + text + "; `chronikd config print-defaults` prints a valid file"
	}
}

// documents counts the documents that lines beginning with --- separate. Such a line before the
// first setting separates nothing.
func documents(text []byte) int {
	n, some := 1, false
	for line := range strings.Lines(string(text)) {
		switch rest, marker := strings.CutPrefix(line, "---"); {
		case marker && (rest == "" || strings.ContainsAny(rest[:1], " \t\r\n")):
			if some {
				n++
			}
		case strings.TrimSpace(line) != "" && line[0] != '#' && line[0] != '%':
			some = true
		}
	}
	return n
}

// scalar formats a YAML value as the other sources would write it. A list of single values becomes
// Kafka's comma-separated form.
func scalar(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int, int64, uint64:
		return fmt.Sprint(v), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			if _, nested := e.([]any); nested {
				return "", errors.New("is a list of lists; write one list of single values")
			}
			s, err := scalar(e)
			if err != nil {
				return "", err
			}
			parts[i] = s
		}
		return strings.Join(parts, ","), nil
	case nil:
		return "", errors.New("has no value; write one, or leave out the key for the default")
	default:
		return "", fmt.Errorf("takes a single value, not %s", kind(v))
	}
}

func kind(v any) string {
	switch v.(type) {
	case map[string]any:
		return "keys below it"
	case []any:
		return "a list"
	case nil:
		return "nothing"
	default:
		return fmt.Sprintf("%v", v)
	}
}

// fields returns the single values of a map that may have only known keys.
func (l *loader) fields(source, where string, v any, known []string) map[string]string {
	m, ok := v.(map[string]any)
	if !ok {
		l.add(source, where, fmt.Sprintf("is %s; write keys below it, of %s", kind(v), strings.Join(known, ", ")))
		return nil
	}
	out := make(map[string]string, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(known, key) {
			l.add(source, where+"."+key, unknown("key", key, known, "use "+strings.Join(known, ", ")))
			continue
		}
		value, err := scalar(m[key])
		if err != nil {
			l.add(source, where+"."+key, err.Error())
			continue
		}
		out[key] = value
	}
	return out
}

// fileListeners reads the list of listeners.
func (l *loader) fileListeners(source string, v any) {
	list, ok := v.([]any)
	if !ok || len(list) == 0 || len(list) > maxListeners {
		l.add(
			source,
			keyListeners,
			fmt.Sprintf("is not a list of 1 to %d entries; write listeners: [{listen: %s}]", maxListeners, DefaultListen),
		)
		return
	}
	l.cfg.Listeners = l.cfg.Listeners[:0]
	for i, entry := range list {
		where := fmt.Sprintf("%s[%d]", keyListeners, i)
		m := l.fields(source, where, entry, []string{"name", KeyListen, KeyAdvertise})
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if err := listenerField(key, m[key]); err != nil {
				l.add(source, where+"."+key, err.Error())
			}
		}
		if i > 0 && m != nil && (m["name"] == "" || m[KeyListen] == "") {
			l.add(source, where, "has no name or no listen; every listener after the first needs both")
		}
		name := m["name"]
		if name == "" {
			name = "default"
		}
		l.cfg.Listeners = append(l.cfg.Listeners, Listener{Name: name, Listen: m[KeyListen], Advertise: m[KeyAdvertise]})
	}
	// Later sources can override the first listener, so its values are settings like others.
	if first := l.cfg.Listeners[0]; l.err() == nil {
		if first.Listen != "" {
			l.put(source, KeyListen, first.Listen)
		}
		if first.Advertise != "" {
			l.put(source, KeyAdvertise, first.Advertise)
		}
	}
}

func listenerField(key, v string) error {
	switch key {
	case KeyListen:
		return bindAddress(v)
	case KeyAdvertise:
		return dialAddress(v)
	}
	if regexp.MustCompile(`^[a-zA-Z0-9_-]{1,32}$`).MatchString(v) {
		return nil
	}
	return fmt.Errorf("%q is not a valid name; use 1 to 32 letters, digits, _ and -", v)
}

// listeners applies --listen and --advertise to the first listener and checks for duplicates.
func (l *loader) listeners() {
	l.cfg.Listeners[0].Listen = l.value(KeyListen)
	l.cfg.Listeners[0].Advertise = l.value(KeyAdvertise)
	for i, x := range l.cfg.Listeners {
		where, source := fmt.Sprintf("%s[%d]", keyListeners, i), l.cfg.File
		if i == 0 {
			where, source = KeyListen, l.source(KeyListen)
		}
		for _, earlier := range l.cfg.Listeners[:i] {
			if x.Name == earlier.Name {
				l.add(source, where, fmt.Sprintf("the name %q is taken by an earlier listener; give each its own", x.Name))
			}
			if overlap(x.Listen, earlier.Listen) {
				l.add(
					source,
					where,
					fmt.Sprintf("%s and %s of an earlier listener have the same port; give each its own", x.Listen, earlier.Listen),
				)
			}
		}
		if overlap(x.Listen, l.cfg.AdminListen) {
			if source == SourceDefault {
				source = l.source(KeyAdminListen) // admin.listen was set explicitly
			}
			l.add(
				source,
				where,
				fmt.Sprintf("%s and %s of %s have the same port; give each its own", x.Listen, l.cfg.AdminListen, KeyAdminListen),
			)
		}
	}
}

// fileProfiles reads the custom durability profiles of the program and of the file; v is nil if the
// file has none.
func (l *loader) fileProfiles(in Input, v any) {
	source := in.File
	m, ok := v.(map[string]any)
	if !ok && v != nil {
		l.add(source, keyProfiles, "is "+kind(v)+"; write profiles: {NAME: {ack: synced, max_wait: 5ms}}")
	}
	custom := slices.Clone(in.Profiles)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if p, ok := l.profile(source, name, m[name]); ok {
			custom = append(custom, p)
		}
	}
	set, err := durability.NewSet(custom...)
	if err != nil {
		l.add(source, keyProfiles, err.Error())
		set, _ = durability.NewSet()
	}
	l.cfg.Durability = set
}
