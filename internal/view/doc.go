// Package view declares what a running broker shows of itself: one struct for each noun, such as a
// log directory, a connection or a broker of the cluster.
//
// The admin port writes the structs as JSON (the names of docs/admin.md), and chronikctl decodes
// them. internal/observe fills each in one place; the page, metrics and health checks read
// that struct too, so the surfaces cannot disagree. Fields without a JSON name are for findings and
// metrics, which have names of their own for them.
//
// The package holds values only: it imports no component of the broker, and its values never change
// after they were handed out.
package view
