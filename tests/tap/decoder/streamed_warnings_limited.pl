# Tests that a streamed transaction does not spool the warnings of each of its changes, and counts them at its commit.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my $RULES = 100;
my $pg    = Clairon::Test::postgresql('main', conf => "autovacuum = off\nlogical_decoding_work_mem = 256kB");
my $file  = PostgreSQL::Test::Utils::tempdir() . '/lines';
my $name  = 'x' x 240;

sub sql { return $pg->safe_psql('postgres', $_[0]) }

# Returns the number of changes to which the warning of a rule applied when it was last logged.
sub logged
{
    my ($rule) = @_;
    my ($last) = reverse slurp_file($pg->logfile) =~ /clairon rule "\Q$rule\E"[^\n]*\n[^\n]*applies to (\d+) change/g;
    return $last // 0;
}

my $next = 0;

# Returns the size of the spool when the slot has read all changes of the transaction, which is still open.
sub spooled
{
    my ($sql, $end) = @_;
    my $session = $pg->background_psql('postgres');
    $session->query_safe($_) for 'BEGIN', $sql;
    my $id = ++$next;
    sql("INSERT INTO marker VALUES ($id)");
    wait_until("row $id of another transaction is sent", sub { -e $file && slurp_file($file) =~ /"id":$id\}/ });
    my $size = sql('SELECT coalesce(sum(size), 0) FROM pg_ls_tmpdir()');
    $session->query_safe($end // 'COMMIT');
    $session->quit;
    return $size;
}

sql(qq{CREATE TABLE marker (id int);
    CREATE TABLE honest (id int, who text); CREATE TABLE denied (id int, who text);
    SELECT clairon.watch('marker', 'USER', '=u'), clairon.watch('honest', 'USER', '=u');
    SELECT clairon.watch('denied', 'USER', 'who', name => '$name' || i) FROM generate_series(1, $RULES) AS i;
    ALTER TABLE denied DROP who;
    SELECT pg_create_logical_replication_slot('s', 'clairon')});
my $reader = fork // die "fork: $!";
if ($reader == 0)
{
    exec 'pg_recvlogical', '-d', $pg->connstr('postgres'), '--slot', 's', '--start', '--no-loop', '-f', $file, '-F', '1', '-s', '1';
    die "pg_recvlogical: $!";
}

sub insert { my ($table, $rows) = @_; return "INSERT INTO $table SELECT generate_series(1, $rows)" }

# A subtransaction for each row; every fifth one is rolled back, beginning with the first.
sub savepoints
{
    my ($table, $rows) = @_;
    return qq{DO \$\$BEGIN
        FOR i IN 1 .. $rows LOOP
            BEGIN
                INSERT INTO $table VALUES (i);
                IF i % 5 = 1 THEN
                    RAISE EXCEPTION 'undone';
                END IF;
            EXCEPTION WHEN raise_exception THEN
            END;
        END LOOP;
    END\$\$};
}

my $honest = spooled(insert('honest', 6000));
cmp_ok($honest, '>', 100_000, 'the notifications of a streamed transaction are spooled');
cmp_ok(spooled(insert('denied', 6000), 'ROLLBACK'), '<', $honest, 'the warnings of many rules need less space than the notifications of one');
cmp_ok(spooled(insert('denied', 6000)), '<', $honest, 'they need less space in another transaction too');
$honest = spooled(savepoints('honest', 4500));
cmp_ok(spooled(savepoints('denied', 4500)), '<', $honest, 'the warnings of subtransactions need less space than their notifications');

# Of these rows 6000 and 3600 are committed.
sql(insert('denied', 399));
spooled(insert('honest', 1));
is(logged("$name$_"), 1000, "changes of rule $_ that are rolled back are not counted") for 1, $RULES;
sql('INSERT INTO denied VALUES (0)');
spooled(insert('honest', 1));
is(logged("$name$_"), 10_000, "all committed changes of rule $_ are counted") for 1, $RULES;

kill 'INT', $reader;
waitpid $reader, 0;
done_testing();
