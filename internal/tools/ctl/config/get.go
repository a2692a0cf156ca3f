package config

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

func get(a *app.App) *cobra.Command {
	var changed bool
	c := command(a, "get topic|broker|group|logger|client-metrics NAME [KEY...]", "Show the values of configs and their sources", 0, "",
		func(cmd *cobra.Command, e Entity, keys []string) error {
			all, err := fetch(cmd.Context(), a, e)
			if err != nil {
				return err
			}
			if all, err = choose(e, all, keys); err != nil {
				return err
			}
			some := []Described{}
			t := &output.Table{Columns: []string{"KEY", "VALUE", "SOURCE", "+DEFAULT", "+TYPE"}, Empty: "nothing is set on " + e.String()}
			for _, d := range all {
				if changed && d.Source == byDefault {
					continue
				}
				some = append(some, d)
				t.Add(d.Key, d.shown(), d.Source, value(d.Default), d.Type)
			}
			return a.Print(some, t)
		})
	c.Example = "  chronikctl config get topic orders\n  chronikctl config get broker 1 --changed -o wide"
	c.Flags().BoolVar(&changed, "changed", false, "only configs that differ from their defaults")
	return c
}

func (d *Described) shown() string {
	if d.Sensitive {
		return "(hidden)"
	}
	return value(d.Value)
}

func value(s *string) string {
	if s == nil {
		return "-"
	}
	if *s == "" {
		return `""`
	}
	return *s
}

func describe(a *app.App) *cobra.Command {
	c := command(a, "describe topic|broker|group|logger|client-metrics NAME [KEY...]",
		"Show documentation, type, bounds, default and source of configs", 0, "",
		func(cmd *cobra.Command, e Entity, keys []string) error {
			all, err := fetch(cmd.Context(), a, e)
			if err != nil {
				return err
			}
			if all, err = choose(e, all, keys); err != nil {
				return err
			}
			var blocks []*output.Table
			for _, d := range all {
				blocks = append(blocks, &output.Table{Title: d.block()})
			}
			return a.Print(all, blocks...)
		})
	c.Example = "  chronikctl config describe topic orders retention.ms"
	return c
}

// block formats a config for people.
func (d *Described) block() string {
	var b strings.Builder
	b.WriteString(d.Key)
	for _, line := range text.Wrap(d.Doc, 96) {
		b.WriteString("\n  " + line)
	}
	b.WriteString("\n  value    " + d.shown() + " (" + d.Source + ")")
	b.WriteString("\n  default  " + value(d.Default))
	b.WriteString("\n  type     " + d.Type)
	if d.ReadOnly {
		b.WriteString(", changing it requires a restart")
	}
	for i, s := range d.Synonyms {
		head := "\n  set by   "
		if i > 0 {
			head = "\n           "
		}
		b.WriteString(head + s.Source + ": " + s.Name + "=" + value(s.Value))
	}
	return b.String()
}
