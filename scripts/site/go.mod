module github.com/chronik-io/chronik/scripts/site

go 1.26

require github.com/yuin/goldmark v1.8.7
