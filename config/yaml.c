/* SPDX-License-Identifier: Apache-2.0 */
#include "config/yaml.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* A configuration is flat; these bound what a file can cost. libyaml's time grows with depth times size and with the square of
 * the anchors, and aliases can expand without end. */
#define DEPTH_MAX 16
#define ANCHORS_MAX 64
#define NODES_MAX 20000

struct reader {
	const char *name;
	struct strbuf *errors;
	yaml_document_t *document;
	size_t nodes;
};

struct tree *tree_free(struct tree *y)
{
	if (!y)
		return NULL;
	for (size_t i = 0; i < y->n_items; i++)
		tree_free(y->items[i]);
	free(y->items);
	free(y->text);
	free(y);
	return NULL;
}

static int fault(const struct reader *r, yaml_mark_t mark, const char *what)
{
	strbuf_addf(r->errors, "%s:%zu:%zu: %s\n", r->name, mark.line + 1, mark.column + 1, what);
	return -EINVAL;
}

static bool is_null(const yaml_node_t *node)
{
	const char *text = (const char *)node->data.scalar.value;

	return node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	       (!*text || strcmp(text, "~") == 0 || strcmp(text, "null") == 0);
}

static int build(struct reader *r, int index, unsigned depth, struct tree **ret);

static int build_scalar(struct reader *r, const yaml_node_t *node, struct tree *y)
{
	y->kind = TREE_SCALAR;
	if (memchr(node->data.scalar.value, 0, node->data.scalar.length))
		return fault(r, node->start_mark, "a value holds a NUL character; allowed is text without");
	y->null = is_null(node);
	y->text = strdup((const char *)node->data.scalar.value);
	return y->text ? 0 : -ENOMEM;
}

static int build_items(struct reader *r, const int *indexes, size_t n, unsigned depth, struct tree *y)
{
	int result;

	y->items = calloc(n ? n : 1, sizeof(*y->items));
	if (!y->items)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		result = build(r, indexes[i], depth + 1, &y->items[i]);
		if (result < 0)
			return result;
		y->n_items++;
	}
	return 0;
}

static const char *plain_tag(yaml_node_type_t type)
{
	return type == YAML_SCALAR_NODE ? YAML_STR_TAG : type == YAML_SEQUENCE_NODE ? YAML_SEQ_TAG : YAML_MAP_TAG;
}

static int build_node(struct reader *r, const yaml_node_t *node, unsigned depth, struct tree *y)
{
	if (strcmp((const char *)node->tag, plain_tag(node->type)) != 0)
		return fault(r, node->start_mark, "has a tag (!...); allowed are values without");
	if (++r->nodes > NODES_MAX || depth > DEPTH_MAX + 1)
		return fault(r, node->start_mark, "expands to too much; allowed are 20000 values");
	if (node->type == YAML_SCALAR_NODE)
		return build_scalar(r, node, y);
	if (node->type == YAML_SEQUENCE_NODE) {
		y->kind = TREE_SEQUENCE;
		return build_items(r, node->data.sequence.items.start,
				   (size_t)(node->data.sequence.items.top - node->data.sequence.items.start), depth, y);
	}
	y->kind = TREE_MAPPING;
	/* A pair is two indexes, key and value, one behind the other. */
	_Static_assert(sizeof(yaml_node_pair_t) == 2 * sizeof(int), "pairs are read as a row of indexes");
	return build_items(r, (const int *)node->data.mapping.pairs.start,
			   2 * (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start), depth, y);
}

static int build(struct reader *r, int index, unsigned depth, struct tree **ret)
{
	const yaml_node_t *node = yaml_document_get_node(r->document, index);
	struct tree *y = calloc(1, sizeof(*y));
	int result;

	if (!y || !node) {
		free(y);
		return -ENOMEM;
	}
	y->line = node->start_mark.line + 1;
	y->column = node->start_mark.column + 1;
	result = build_node(r, node, depth, y);
	if (result < 0) {
		tree_free(y);
		return result;
	}
	*ret = y;
	return 0;
}

static size_t column_of(const char *line, size_t len)
{
	size_t column = 1;

	for (size_t i = 0; i < len; i++)
		column += ((unsigned char)line[i] & 0xc0) != 0x80;
	return column;
}

/* Marks count characters, so the line is looked for. */
static bool tab_indents(const char *text, size_t len, size_t line)
{
	const char *end = text + len;

	for (; line > 0 && text; line--) {
		text = memchr(text, '\n', (size_t)(end - text));
		text = text ? text + 1 : NULL;
	}
	while (text && text < end && *text == ' ')
		text++;
	return text && text < end && *text == '\t';
}

static const char *hint_of(const yaml_parser_t *parser, const char *text, size_t len)
{
	if (tab_indents(text, len, parser->problem_mark.line))
		return "; a tab stands where YAML allows spaces only";
	if (parser->context && strstr(parser->context, "an alias"))
		return "; a text that begins with * is allowed in quotes only";
	return "";
}

/* libyaml says what it found; what is allowed is for us to say. */
static int parser_fault(const struct reader *r, const yaml_parser_t *parser, const char *text, size_t len)
{
	yaml_mark_t mark = parser->problem_mark;

	/* The loader forgets to say so when memory is short. */
	if (parser->error == YAML_MEMORY_ERROR || parser->error == YAML_NO_ERROR)
		return -ENOMEM;
	if (parser->error == YAML_READER_ERROR) {
		size_t line = 1, start = 0;

		for (size_t i = 0; i < parser->problem_offset && i < len; i++)
			if (text[i] == '\n') {
				line++;
				start = i + 1;
			}
		strbuf_addf(r->errors, "%s:%zu:%zu: is no text (%s); allowed is UTF-8 without control characters\n",
			    r->name, line, column_of(text + start, parser->problem_offset - start),
			    parser->problem ? parser->problem : "unreadable");
		return -EINVAL;
	}
	strbuf_addf(r->errors, "%s:%zu:%zu: is no YAML: %s%s%s%s\n", r->name, mark.line + 1, mark.column + 1,
		    parser->context ? parser->context : "", parser->context ? ": " : "",
		    parser->problem ? parser->problem : "cannot be read", hint_of(parser, text, len));
	return -EINVAL;
}

static int read_only_document(struct reader *r, yaml_parser_t *parser, const char *text, size_t len, struct tree **ret)
{
	yaml_document_t second;
	const yaml_node_t *root = yaml_document_get_root_node(r->document);
	/* Short of memory, the loader may go on with less than it read. */
	int result = parser->error == YAML_MEMORY_ERROR ? -ENOMEM : root ? build(r, 1, 1, ret) : 0;

	if (result < 0 || !root)
		return result;
	if (!yaml_parser_load(parser, &second))
		return parser_fault(r, parser, text, len);
	root = yaml_document_get_root_node(&second);
	if (root)
		result = fault(r, second.start_mark, "a second document begins; allowed is one per file");
	yaml_document_delete(&second);
	return result;
}

static bool has_anchor(const yaml_event_t *event)
{
	return (event->type == YAML_SCALAR_EVENT && event->data.scalar.anchor) ||
	       (event->type == YAML_SEQUENCE_START_EVENT && event->data.sequence_start.anchor) ||
	       (event->type == YAML_MAPPING_START_EVENT && event->data.mapping_start.anchor);
}

/* A look at the events before libyaml builds anything of them: stops at the first thing that is too much. */
static int check_bounds(const struct reader *r, yaml_parser_t *parser, const char *text, size_t len)
{
	unsigned depth = 0, anchors = 0;
	yaml_event_type_t type;

	do {
		yaml_event_t event;
		yaml_mark_t mark;

		if (!yaml_parser_parse(parser, &event))
			return parser_fault(r, parser, text, len);
		type = event.type;
		mark = event.start_mark;
		depth += type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT;
		depth -= type == YAML_SEQUENCE_END_EVENT || type == YAML_MAPPING_END_EVENT;
		anchors += has_anchor(&event);
		yaml_event_delete(&event);
		if (depth > DEPTH_MAX)
			return fault(r, mark, "is nested too deep; allowed are 16 levels");
		if (anchors > ANCHORS_MAX)
			return fault(r, mark, "is one anchor too many; allowed are 64");
	} while (type != YAML_STREAM_END_EVENT);
	return 0;
}

static bool begin_parser(yaml_parser_t *parser, const char *text, size_t len)
{
	if (!yaml_parser_initialize(parser))
		return false;
	yaml_parser_set_input_string(parser, (const unsigned char *)text, len);
	yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING);
	return true;
}

static int read_tree(struct reader *r, const char *text, size_t len, struct tree **ret)
{
	yaml_parser_t parser;
	int result;

	if (!begin_parser(&parser, text, len))
		return -ENOMEM;
	result = check_bounds(r, &parser, text, len);
	yaml_parser_delete(&parser);
	if (result < 0)
		return result;
	if (!begin_parser(&parser, text, len))
		return -ENOMEM;
	if (!yaml_parser_load(&parser, r->document)) {
		result = parser_fault(r, &parser, text, len);
	} else {
		result = read_only_document(r, &parser, text, len, ret);
		yaml_document_delete(r->document);
	}
	yaml_parser_delete(&parser);
	return result;
}

int tree_read(const char *name, const char *text, size_t len, struct strbuf *errors, struct tree **ret)
{
	yaml_document_t document;
	struct reader r = {.name = name, .errors = errors, .document = &document};
	struct tree *y = NULL;
	int result;

	/* The encoding is told, not guessed, so the byte order mark is ours to skip. */
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		text += 3;
		len -= 3;
	}
	result = read_tree(&r, text, len, &y);
	if (result < 0) {
		tree_free(y);
		return result;
	}
	*ret = y;
	return 0;
}
