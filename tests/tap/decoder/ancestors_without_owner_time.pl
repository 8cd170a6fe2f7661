# Tests that changes of the ancestors of a table count also when its owner has no time left to search all of them again.
use strict;
use warnings;

use Clairon::Test;
use JSON ();
use Test::More;

my $GENERATIONS = 500;

my $pg = Clairon::Test::postgresql('main', conf => "autovacuum = off\nsynchronous_commit = off");

sub sql { return $pg->safe_psql('postgres', $_[0]) }

sql(qq{CREATE ROLE mallory; CREATE SCHEMA own AUTHORIZATION mallory; SET ROLE mallory;
    CREATE TABLE own.any (id int);
    CREATE TABLE own.ruled (id int, u text DEFAULT 'u'); CREATE TABLE own.parent (LIKE own.ruled INCLUDING ALL);
    SELECT clairon.watch('own.ruled', 'USER', 'u');
    CREATE TABLE own.a0 (id int, u text DEFAULT 'u');
    DO \$\$ BEGIN
        FOR i IN 1 .. $GENERATIONS LOOP
            EXECUTE format('CREATE TABLE own.a%s () INHERITS (own.a%s)', i, i - 1);
        END LOOP;
    END \$\$;
    RESET ROLE; SELECT pg_create_logical_replication_slot('slot', 'clairon')});

my $id = 0;
my $grant = "GRANT SELECT ON own.any TO mallory;\n";

sub insert { return "INSERT INTO own.a$GENERATIONS VALUES (" . ++$id . ");\n" }

# Between these changes, a search of all ancestors at each GRANT would take more than all time.
my (@statements, @sent);
for my $round (
    [ 'ALTER TABLE own.a0 INHERIT own.ruled',             'ALTER TABLE own.a0 NO INHERIT own.ruled' ],
    [ 'ALTER TABLE own.parent INHERIT own.ruled',         'ALTER TABLE own.parent NO INHERIT own.ruled' ],
    [ "ALTER TABLE own.a$GENERATIONS INHERIT own.ruled", "ALTER TABLE own.a$GENERATIONS NO INHERIT own.ruled" ])
{
    my ($inherit, $leave) = @$round;
    push @statements, 'ALTER TABLE own.a100 INHERIT own.parent;' if $inherit =~ /parent/;
    push @statements, map { $grant . insert() } 1 .. 300;
    push @statements, "BEGIN;\n$inherit;\n", insert(), "COMMIT;\n";
    push @sent,       $id;
    push @statements, insert(), $grant, insert();
    push @sent,       $id - 1, $id;
    push @statements, "BEGIN;\nSAVEPOINT s;\n$leave;\n", insert(), "ROLLBACK TO s;\n", insert(), "COMMIT;\n";
    push @sent,       $id;
    push @statements, "$leave;\n", insert(), $grant, insert();
}
sql(join '', "SET ROLE mallory;\n", @statements);
sql('CHECKPOINT'); # decoding ends where WAL is flushed
my @got = map { JSON::decode_json($_)->{payload}{after}{id} }
    split /\n/, sql(q{SELECT data FROM pg_logical_slot_get_changes('slot', NULL, NULL, 'owner_time', '100ms')});
is_deeply(\@got, \@sent, 'rows are sent while a table with a rule is an ancestor');
done_testing();
