# Tests the rows of live rules in databases whose encoding is not UTF-8: the JSON of a row is equal to the JSON in its
# notification.
use strict;
use warnings;
use utf8;

use Clairon::Test;
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main', extension => 0);

# The bytes are UTF-8, except for SQL_ASCII.
sub run_sql
{
    my ($database, $sql) = @_;
    utf8::encode($sql);
    return $pg->safe_psql($database, ($database eq 'ascii' ? '' : "SET client_encoding = 'UTF8';") . $sql);
}

for my $database ([ latin => 'LATIN9' ], [ japanese => 'EUC_JP' ], [ unicode => 'UTF8' ], [ ascii => 'SQL_ASCII' ])
{
    my ($name, $encoding) = @$database;
    my $letter = $name eq 'japanese' ? 'あ' : 'é';
    $pg->safe_psql('postgres', "CREATE DATABASE $name ENCODING '$encoding' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
    run_sql($name, "CREATE EXTENSION clairon; SELECT pg_create_logical_replication_slot('$name', 'clairon')");
    run_sql($name, qq{
        CREATE TABLE "t$letter" (id int PRIMARY KEY, "c$letter" text, who text, roles text[], j json);
        ALTER TABLE "t$letter" REPLICA IDENTITY FULL;
        SELECT clairon.watch('t$letter', 'USER', 'who', name => 'r$letter', live => true);
        SELECT clairon.watch('t$letter', 'G+G', 'roles+roles', name => 'group', live => true);
        INSERT INTO clairon.member VALUES ('G', 'x+$letter', 'u$letter');
        INSERT INTO "t$letter" VALUES (1, 'v$letter', 'u$letter', '{x+$letter}', '{"$letter" : "\\u00e8 $letter"}'), (2, 'x', 'ux', '{x}', NULL)});

    my @notifications = map { JSON::decode_json($_) } split /\n/,
      run_sql($name, "SELECT data FROM pg_logical_slot_get_changes('$name', NULL, NULL)");
    my ($sent) = map { $_->{payload}{after} } grep { $_->{payload}{after}{id} == 1 } @notifications;
    is($sent->{"c$letter"}, "v$letter", "$encoding: the notification is delivered");

    my ($header, @rows) = map { JSON::decode_json($_) } split /\n/,
      run_sql($name, "SELECT * FROM clairon.live_rows('t$letter', 'r$letter', 'u$letter', '{}', 10, 1000)");
    is_deeply(\@rows, [$sent], "$encoding: the same row is returned");
    is_deeply($header->{key}, ['id'], "$encoding: the header is returned");
    my ($text) = run_sql($name, "SELECT row FROM clairon.rows('t$letter', 'u$letter', 'r$letter') AS row");
    my ($line) = run_sql($name, "SELECT count(*) FROM clairon.rows('t$letter', 'u', 'r$letter')");
    is($line, 0, "$encoding: a user whose id is a prefix of the owner's id has no rows");
    unlike($text, qr/[^\x20-\x7e]/, "$encoding: the JSON is ASCII") if $encoding ne 'UTF8';
    for my $groups ('{}', qq({"G": ["x+$letter"]}))
    {
        is(run_sql($name, "SELECT count(*) FROM clairon.rows('t$letter', 'u$letter', 'group', '$groups')"), 1,
            "$encoding: a group of clairon.member selects rows, with the token " . (length $groups > 2 ? "too" : "without groups"));
    }
    is(run_sql($name, "SELECT count(*) FROM clairon.rows('t$letter', 'other', 'group', '{\"G\": [\"x\"]}')"), 1,
        "$encoding: a group of a token selects rows");
}

done_testing();
