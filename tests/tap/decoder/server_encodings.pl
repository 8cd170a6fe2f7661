# Tests the output of databases whose encoding is not UTF-8.
use strict;
use warnings;
use utf8;

use Clairon::Test;
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main', extension => 0);

# psql reads raw bytes.
sub run_sql
{
    my ($database, $sql) = @_;
    utf8::encode($sql);
    return $pg->safe_psql($database, $sql);
}

sub bytes_of
{
    my ($database, $value, $from) = @_;
    return map { pack 'H*', $_ } split /\n/,
      run_sql($database, "SELECT encode($value, 'hex') FROM $from");
}

sub text_lines
{
    my ($database) = @_;
    return bytes_of($database, "convert_to(data, 'SQL_ASCII')",
        "pg_logical_slot_peek_changes('$database', NULL, NULL)");
}

# Returns the JSON of each notification frame; each transaction consists of one frame and a commit frame.
sub framed_lines
{
    my ($database) = @_;
    my @lines;
    for my $bytes (bytes_of($database, 'data',
            "pg_logical_slot_peek_binary_changes('$database', NULL, NULL, 'mode', 'framed')"))
    {
        my ($length, $audience, $topic, $targets, $rule) = unpack 'N @64 n n N @92 n', $bytes;
        my $head = 104 + $audience + $topic + $rule + $targets;
        push @lines, substr $bytes, $head, $length - $head;
    }
    return @lines;
}

sub make
{
    my ($database, $encoding) = @_;
    run_sql('postgres', "CREATE DATABASE $database ENCODING '$encoding'"
          . " LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
    run_sql($database, "CREATE EXTENSION clairon;"
          . "SELECT pg_create_logical_replication_slot('$database', 'clairon')");
    return;
}

make('latin', 'LATIN9');
run_sql('latin', <<'SQL');
SET client_encoding = 'UTF8';
CREATE TABLE "né" (id int, "prix €" text, j json);
SELECT clairon.watch('né', 'USER', '=zoé');
INSERT INTO "né" VALUES (1, 'dix €', '{"é": "\u00e8 ç"}');
SELECT clairon.notify('USER', '{zoé}', '{"ça": "va €"}');
SQL
my @ascii = text_lines('latin');
my @utf8  = framed_lines('latin');
is(scalar(@ascii), 2, 'text mode returns two lines');
unlike("@ascii", qr/[^\x20-\x7e]/, 'text mode is ASCII');
like($ascii[0], qr/"prix \\u20ac":"dix \\u20ac"/, 'text mode escapes other characters as \\u');
like("@utf8", qr/\xe2\x82\xac/, 'framed mode is UTF-8');
for my $i (0, 1)
{
    is_deeply(JSON::decode_json($ascii[$i]), JSON::decode_json($utf8[$i]), 'both modes have the same content');
}
my $notification = JSON::decode_json($utf8[0]);
is_deeply($notification->{payload}{after}, { id => 1, 'prix €' => 'dix €', j => { 'é' => 'è ç' } }, 'the row is converted to UTF-8');
is($notification->{metadata}{topic}, 'latin.né', 'the topic is converted to UTF-8');
is_deeply($notification->{routing}{audience}{targets}, ['zoé'], 'the targets are converted to UTF-8');
is_deeply(JSON::decode_json($utf8[1])->{payload}, { 'ça' => 'va €' }, 'the payload of notify is converted to UTF-8');

# SQL_ASCII accepts any byte, so the decoder replaces invalid UTF-8 by U+FFFD.
make('anything', 'SQL_ASCII');
run_sql('anything', <<'SQL');
SET client_encoding = 'SQL_ASCII';
CREATE TABLE t (v text);
SELECT clairon.watch('t', 'ALL');
INSERT INTO t VALUES (E'a\xff\xe2\x82\xacb\xe2\x82');
SQL
like((framed_lines('anything'))[0], qr/"v":"a\xef\xbf\xbd\xe2\x82\xacb\xef\xbf\xbd\xef\xbf\xbd"/,
    'invalid bytes are replaced, and valid bytes are kept');
like((text_lines('anything'))[0], qr/"v":"a\\ufffd\\u20acb\\ufffd\\ufffd"/, 'text mode replaces invalid bytes');

# The topic and the targets are also in a frame's header, which precedes its JSON.
run_sql('anything', <<'SQL');
SET client_encoding = 'SQL_ASCII';
CREATE TABLE u (v text);
SELECT clairon.watch('u', 'USER', 'v', topic => E'top\xff');
INSERT INTO u VALUES (E'x\xff');
SQL
my ($head) = (bytes_of('anything', 'data',
    "pg_logical_slot_peek_binary_changes('anything', NULL, NULL, 'mode', 'framed')"))[-1] =~ /^(.*?)\{"metadata"/s;
like($head, qr/USERtop\xef\xbf\xbddefault\0\x04x\xef\xbf\xbd$/, 'the frame header, which the relay uses for routing, has the same replacements');

# A string is rejected if its UTF-8 form is too long, even if it is shorter in the server encoding.
my (undef, undef, $rejection) =
  $pg->psql('latin', q{CREATE TABLE short (id int); SELECT clairon.watch('short', 'USER', '=' || repeat(chr(233), 128))});
like($rejection, qr/parameter "targets" has a value longer than 255 bytes/, 'a target of 128 bytes is rejected if it has 256 in UTF-8');

# With a three-byte encoding, a conversion in chunks must not split a character.
make('japan', 'EUC_JP');
my $long = '日本語テキスト' x 3000;
run_sql('japan', "SET client_encoding = 'UTF8'; CREATE TABLE t (v text);"
      . "SELECT clairon.watch('t', 'ALL'); INSERT INTO t VALUES ('x$long')");
is(JSON::decode_json((framed_lines('japan'))[0])->{payload}{after}{v}, "x$long", 'a long string is converted completely');
is(JSON::decode_json((text_lines('japan'))[0])->{payload}{after}{v}, "x$long", 'text mode escapes a long string completely');

# In all other server encodings, names, labels, targets and values are converted; a second read returns the same output.
my %words = (
    LATIN1        => 'déjà ÿ',
    LATIN2        => 'żółć ő',
    LATIN5        => 'ğış',
    ISO_8859_5    => 'щука',
    ISO_8859_6    => 'سلام',
    ISO_8859_7    => 'λόγος',
    ISO_8859_8    => 'שלום',
    WIN1250       => 'čeština €',
    WIN1251       => 'Ђорђе №',
    WIN1252       => '“naïve” €',
    WIN1253       => 'λόγος €',
    WIN1256       => 'سلام €',
    WIN1258       => 'đơn ư',
    WIN874        => 'ไทย',
    WIN866        => 'щука ░',
    KOI8R         => 'щука',
    KOI8U         => 'їжак',
    EUC_KR        => '한국어 한글',
    EUC_CN        => '中文汉字',
    EUC_TW        => '中文漢字',
    EUC_JIS_2004  => '日本語か゚',
    UTF8          => '😀 中 é',
    MULE_INTERNAL => 'plain',
);
for my $encoding (sort keys %words)
{
    my ($word, $database) = ($words{$encoding}, 'db_' . lc $encoding);
    my $client = $encoding eq 'MULE_INTERNAL' ? $encoding : 'UTF8';
    make($database, $encoding);
    run_sql($database, <<"SQL");
SET client_encoding = '$client';
CREATE TYPE "$word" AS ENUM ('$word');
CREATE TABLE "t $word" ("$word" text, e "$word", j jsonb, a text[]);
SELECT clairon.watch('"t $word"', 'USER', 'a', emitter => '$word', only_when => '"$word" = ''$word''');
INSERT INTO "t $word" VALUES ('$word', '$word', '{"$word": "$word"}', '{$word}');
SELECT clairon.notify('USER', '{$word}', '{"$word": ["$word"]}');
SQL
    my @text = text_lines($database);
    my @notifications = map { JSON::decode_json($_) } framed_lines($database);
    unlike("@text", $encoding eq 'UTF8' ? qr/\\u/ : qr/[^\x20-\x7e]/, "$encoding: text mode is ASCII unless the server is UTF-8");
    is_deeply([ map { JSON::decode_json($_) } @text ], \@notifications, "$encoding: both modes have the same content");
    is_deeply($notifications[0]{payload}{after},
        { $word => $word, e => $word, j => { $word => $word }, a => [$word] }, "$encoding: the row is converted");
    is_deeply([ @{ $notifications[0]{metadata} }{qw(source emitter)}, $notifications[0]{routing}{audience}{targets}[0] ],
        [ "t $word", $word, $word ], "$encoding: source, emitter and targets are converted");
    is_deeply($notifications[1]{payload}, { $word => [$word] }, "$encoding: the payload of notify is converted");
    run_sql($database, "SELECT pg_drop_replication_slot('$database')");
    run_sql('postgres', "DROP DATABASE $database");
}

# Characters that do not exist in Unicode are replaced by one U+FFFD each.
for my $case ([ 'WIN1252', '\x81' ], [ 'EUC_KR', '\xfe\xfe' ], [ 'MULE_INTERNAL', '\x81\xe9' ])
{
    my ($encoding, $bytes) = @$case;
    my $database = 'odd_' . lc $encoding;
    make($database, $encoding);
    run_sql($database, "SET client_encoding = '$encoding'; CREATE TABLE t (v text, j json);"
          . "SELECT clairon.watch('t', 'ALL'); INSERT INTO t VALUES (E'a${bytes}b', E'\"${bytes}\"')");
    for my $line (framed_lines($database), text_lines($database))
    {
        is_deeply(JSON::decode_json($line)->{payload}{after},
            { v => "a\x{fffd}b", j => "\x{fffd}" }, "$encoding: a character without a code point is replaced");
    }
}

done_testing();
