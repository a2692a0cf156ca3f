package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// A runConfig says how an engine runs the image.
type runConfig struct {
	User         string
	ExposedPorts map[string]struct{}
	Env          []string
	Entrypoint   []string
	Volumes      map[string]struct{}
	WorkingDir   string
	Labels       map[string]string
	StopSignal   string
	Healthcheck  *healthcheck `json:",omitempty"` // Docker's extension, which podman also reads
}

type healthcheck struct {
	Test                           []string
	Interval, Timeout, StartPeriod time.Duration `json:",omitempty"`
}

// parseDockerfile returns the configuration that the last stage of a Dockerfile declares. It knows
// the instructions that chronik's Dockerfile has, and refuses every other one. COPY is skipped:
// rootFiles writes the files.
func parseDockerfile(text string, args map[string]string) (runConfig, error) {
	c := runConfig{ExposedPorts: map[string]struct{}{}, Volumes: map[string]struct{}{}, Labels: map[string]string{}}
	var last []string
	for _, line := range logicalLines(text) {
		if name, _, _ := strings.Cut(line, " "); name == "FROM" {
			last = nil
		}
		last = append(last, line)
	}
	if len(last) == 0 || last[0] != "FROM scratch" {
		return c, fmt.Errorf("the last stage does not begin with FROM scratch")
	}
	for _, line := range last[1:] {
		name, value, _ := strings.Cut(line, " ")
		for arg, v := range args {
			value = strings.ReplaceAll(value, "${"+arg+"}", v)
		}
		if err := c.apply(name, strings.TrimSpace(value)); err != nil {
			return c, fmt.Errorf("%s: %w", line, err)
		}
	}
	return c, nil
}

// apply applies one instruction.
func (c *runConfig) apply(name, value string) error {
	switch name {
	case "ARG", "COPY":
	case "USER":
		c.User = value
	case "WORKDIR":
		c.WorkingDir = value
	case "STOPSIGNAL":
		c.StopSignal = value
	case "ENTRYPOINT":
		return json.Unmarshal([]byte(value), &c.Entrypoint)
	case "EXPOSE":
		for _, port := range strings.Fields(value) {
			c.ExposedPorts[port+"/tcp"] = struct{}{}
		}
	case "VOLUME":
		var dirs []string
		if err := json.Unmarshal([]byte(value), &dirs); err != nil {
			return err
		}
		for _, dir := range dirs {
			c.Volumes[dir] = struct{}{}
		}
	case "ENV", "LABEL":
		return pairs(value, func(k, v string) {
			if name == "ENV" {
				c.Env = append(c.Env, k+"="+v)
			} else {
				c.Labels[k] = v
			}
		})
	case "HEALTHCHECK":
		return c.health(value)
	default:
		return fmt.Errorf("the instruction is not known here")
	}
	return nil
}

// health applies HEALTHCHECK.
func (c *runConfig) health(value string) error {
	options, command, ok := strings.Cut(value, "CMD ")
	if !ok {
		return fmt.Errorf("it has no CMD")
	}
	h := &healthcheck{Test: []string{"CMD"}}
	var words []string
	if err := json.Unmarshal([]byte(command), &words); err != nil {
		return err
	}
	h.Test = append(h.Test, words...)
	known := map[string]*time.Duration{"--interval": &h.Interval, "--timeout": &h.Timeout, "--start-period": &h.StartPeriod}
	for _, option := range strings.Fields(options) {
		name, text, _ := strings.Cut(option, "=")
		if known[name] == nil {
			return fmt.Errorf("the option %s is not known here", name)
		}
		var err error
		if *known[name], err = time.ParseDuration(text); err != nil {
			return err
		}
	}
	c.Healthcheck = h
	return nil
}

// pairs calls set for each KEY=VALUE of a text; a value in quotes may contain spaces.
func pairs(text string, set func(k, v string)) error {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		k, rest, ok := strings.Cut(text, "=")
		if !ok || k == "" {
			return fmt.Errorf("%q is not of the form KEY=VALUE", text)
		}
		v := ""
		if quoted, is := strings.CutPrefix(rest, `"`); is {
			if v, text, ok = strings.Cut(quoted, `"`); !ok {
				return fmt.Errorf("%q has no closing quote", rest)
			}
		} else {
			v, text, _ = strings.Cut(rest, " ")
		}
		set(k, v)
	}
	return nil
}

// logicalLines returns the instructions of a Dockerfile, without comments, each on one line.
func logicalLines(text string) []string {
	var all []string
	more := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		line, next := strings.CutSuffix(line, `\`)
		if more {
			all[len(all)-1] += line
		} else {
			all = append(all, line)
		}
		more = next
	}
	return all
}
