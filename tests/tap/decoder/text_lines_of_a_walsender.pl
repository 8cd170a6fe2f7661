# Tests when a walsender sends the lines of text mode: after each transaction, and within a long one.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg = Clairon::Test::postgresql('main', conf => <<'CONF');
autovacuum = off
max_wal_size = 4GB
logical_decoding_work_mem = 2GB
CONF
my $connection = $pg->connstr('postgres');

sub sql { return $pg->safe_psql('postgres', $_[0]) }

# Starts a client of the slot `s`.
sub start_reader
{
    my @command = ('pg_recvlogical', '-d', $connection, '--slot', 's', '--start', '--no-loop', '-f', '-');
    open my $out, '-|', @command or die "pg_recvlogical: $!";
    my $walsender = wait_until(
        'a client reads the slot',
        sub { sql(q{SELECT active_pid FROM pg_replication_slots WHERE slot_name = 's'}) });
    return { out => $out, walsender => $walsender };
}

# Returns the next lines; they must arrive without another transaction.
sub read_lines
{
    my ($reader, $count) = @_;
    my @lines;
    local $SIG{ALRM} = sub { die "only @{[scalar @lines]} of $count lines arrived\n" };
    alarm $Clairon::Test::SECONDS;
    for (1 .. $count)
    {
        my $line = readline($reader->{out}) // last;
        push @lines, $line;
    }
    alarm 0;
    return join '', @lines;
}

# Returns the same lines from another slot.
sub lines_by_sql { return sql(q{SELECT data FROM pg_logical_slot_get_changes('other', NULL, NULL)}) . "\n" }

sql('CREATE TABLE t (id int, v text)');
sql(q{SELECT clairon.watch('t', 'ALL', only_when => 'id > 0')});
sql("SELECT pg_create_logical_replication_slot(slot, 'clairon') FROM unnest('{s,other}'::text[]) slot");

my $reader = start_reader();
sql(q{INSERT INTO t VALUES (1, 'alone')});
is(read_lines($reader, 1), lines_by_sql(), 'a line arrives at its commit');

sql(q{INSERT INTO t SELECT i, 'row ' || i FROM generate_series(1, 1000) i});
is(read_lines($reader, 1000), lines_by_sql(), 'all lines of a transaction arrive at its commit');

sql(q{INSERT INTO t SELECT i, repeat('x', i * 1000) FROM generate_series(1, 50) i});
is(read_lines($reader, 50), lines_by_sql(), 'lines below and above the size of the buffer arrive in order');

# 20 lines are less than the buffer. The walsender is terminated before it has decoded the rows between them.
sql(q{INSERT INTO t SELECT CASE WHEN i <= 10 OR i > 500000 THEN i ELSE -i END FROM generate_series(1, 500010) i});
like(read_lines($reader, 10), qr/"id":10,/, 'lines arrive while the transaction is decoded');
is(kill('TERM', $reader->{walsender}), 1, 'the walsender is terminated');
is(read_lines($reader, 10), '', 'the last lines were not sent yet');
close $reader->{out};

done_testing();
