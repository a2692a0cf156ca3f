package ctl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/cli/contexts"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
	"github.com/chronik-io/chronik/internal/tools/ctl/parse"
)

// contextCommand returns the command context.
func contextCommand(a *app.App) *cobra.Command {
	c := app.Offline(app.Parent("context", "Save connection settings under names", contextList(a), contextUse(a), contextSet(a),
		contextShow(a), contextRename(a), contextDelete(a)))
	c.Long = "A context is a named set of settings: brokers, TLS, SASL and the others that every command has as flags. The file is\n" +
		"$" + contexts.EnvFile +
		"; by default ~/.config/chronik/chronikctl.yaml. A flag has priority over a variable, a variable over the context."
	const use = "context use selects the current context"
	cli.Instead(c, map[string]string{"use-context": use, "switch": use, "select": use, "get-contexts": "context list lists them",
		"get": "context list lists them, context show shows the settings", "current-context": "context show shows its settings",
		"current": "context show shows its settings",
		"create":  "context set creates a context", "add": "context set creates a context", "mv": "context rename gives it another name",
		"remove": "context delete deletes one", "rm": "context delete deletes one"})
	return c
}

// edit loads the file, applies change, saves the file, and prints what change returned.
func edit(a *app.App, change func(*contexts.File) (string, error)) error {
	f, err := contexts.Open(a.Getenv)
	done := ""
	if err == nil {
		done, err = change(f)
	}
	if err == nil {
		err = f.Save()
	}
	if app.ExitCode(err) == app.ExitUnconfirmed {
		return err
	}
	if err != nil {
		return app.Usage("%w", err)
	}
	_, err = fmt.Fprintln(a.Out, done)
	return err
}

// contextNames suggests contexts.
func contextNames(a *app.App) app.Completion {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		f, err := contexts.Open(a.Getenv)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.Sorted(maps.Keys(f.Contexts)), cobra.ShellCompDirectiveNoFileComp
	}
}

// contextSettings suggests contexts, then settings.
func contextSettings(a *app.App) app.Completion {
	names := contextNames(a)
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return names(cmd, args, begun)
		}
		var settings []cobra.Completion
		for _, name := range contexts.Names() {
			settings = append(settings, name+"=")
		}
		return settings, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

func contextList(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the contexts", Args: app.Args(0, 0, "no argument"),
		Example: "  chronikctl context list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := contexts.Open(a.Getenv)
			if err == nil {
				err = a.Resolve(cmd)
			}
			if err != nil {
				return app.Usage("%w", err)
			}
			type row struct {
				Name    string `json:"name"`
				Current bool   `json:"current"`
				Brokers string `json:"brokers"`
			}
			all := []row{}
			t := &output.Table{Columns: []string{"CURRENT", "NAME", "BROKERS"}, Empty: "no contexts in " + f.Path}
			for _, name := range slices.Sorted(maps.Keys(f.Contexts)) {
				r := row{name, name == f.Current, f.Contexts[name][contexts.Brokers]}
				all = append(all, r)
				t.Add(map[bool]string{true: "*"}[r.Current], name, r.Brokers)
			}
			return a.Print(all, t)
		},
	}
}

func contextUse(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Select the current context", Args: app.Args(1, 1, "one context"), ValidArgsFunction: contextNames(a),
		Example: "  chronikctl context use prod",
		RunE: func(_ *cobra.Command, names []string) error {
			return edit(a, func(f *contexts.File) (string, error) {
				_, err := f.Context(names[0])
				f.Current = names[0]
				return fmt.Sprintf("context %s is now the current one", names[0]), err
			})
		},
	}
}

func contextSet(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "set NAME SETTING=VALUE...", Short: "Create a context, or change its settings",
		Args:              app.Args(2, -1, "a context and SETTING=VALUE"),
		ValidArgsFunction: contextSettings(a),
		Long: "set creates a context or changes its settings. Settings have the names of the flags; an empty value removes a setting.\n" +
			"It does not change which context is the current one: context use does.",
		Example: "  chronikctl context set prod brokers=a.example.com:9093,b.example.com:9093 tls=true\n" +
			"  chronikctl context set prod sasl=SCRAM-SHA-512 sasl-user=ops sasl-password-file=/etc/chronik/ops",
		RunE: func(_ *cobra.Command, args []string) error {
			note := ""
			err := edit(a, func(f *contexts.File) (string, error) {
				_, old := f.Contexts[args[0]]
				for _, kv := range args[1:] {
					name, value, err := parse.KeyValue(kv)
					if err == nil {
						err = f.Set(args[0], name, value)
					}
					if err != nil {
						return "", err
					}
				}
				if !old && f.Current != args[0] {
					note = "the current context is " + f.Current
					if f.Current == "" {
						note = "there is no current context"
					}
				}
				return fmt.Sprintf("context %s set in %s", args[0], f.Path), nil
			})
			if err == nil && note != "" {
				a.Note("note: %s; chronikctl context use %s selects %s", note, args[0], args[0])
			}
			return err
		},
	}
}

func contextRename(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "rename NAME NEW", Short: "Give a context another name", Args: app.Args(2, 2, "a context and its new name"),
		ValidArgsFunction: contextNames(a),
		Long: "rename gives a context another name, which no context has. The current context stays the current one. Its file for Kafka's\n" +
			"tools, which `chronikd secure init` wrote, is renamed, too.",
		Example: "  chronikctl context rename secured prod",
		RunE: func(_ *cobra.Command, names []string) error {
			return edit(a, func(f *contexts.File) (string, error) {
				return fmt.Sprintf("context %s is now %s", names[0], names[1]), f.Rename(names[0], names[1])
			})
		},
	}
}

func contextDelete(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Delete a context", Args: app.Args(1, 1, "one context"), ValidArgsFunction: contextNames(a),
		Long: "delete removes a context. If the context holds a password itself, and not the name of its file, delete asks first; --yes\n" +
			"confirms.",
		Example: "  chronikctl context delete prod",
		RunE: func(_ *cobra.Command, names []string) error {
			return edit(a, func(f *contexts.File) (string, error) {
				if _, err := f.Context(names[0]); err != nil {
					return "", err
				}
				if held := f.Secrets(names[0]); len(held) > 0 {
					if err := a.Confirm("delete context "+names[0], app.Irreversible,
						[]string{strings.Join(held, ", ") + ": the file of contexts may have the only copy"}); err != nil {
						return "", err
					}
				}
				done := fmt.Sprintf("context %s deleted", names[0])
				delete(f.Contexts, names[0])
				if f.Current == names[0] {
					f.Current = ""
					done += "; there is no current one now: select one with chronikctl context use NAME"
				}
				return done, nil
			})
		},
	}
}

func contextShow(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show every setting and its source", Args: app.Args(0, 0, "no argument; --context selects one"),
		Example: "  chronikctl context show\n  chronikctl --context prod context show -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.Resolve(cmd); err != nil {
				return err
			}
			type row struct {
				Setting string `json:"setting"`
				Value   string `json:"value"`
				Source  string `json:"source"`
			}
			all := []row{}
			t := &output.Table{Columns: []string{"SETTING", "VALUE", "SOURCE"}}
			for _, name := range contexts.Names() {
				r := row{name, a.Settings.Shown(name), a.Settings.Source(name)}
				all = append(all, r)
				t.Add(r.Setting, r.Value, r.Source)
			}
			return a.Print(all, t)
		},
	}
}
