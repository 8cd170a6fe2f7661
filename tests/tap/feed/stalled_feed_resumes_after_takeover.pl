# Tests two feeds that use one slot: one feed is stopped while streaming, the other feed takes over, then the first feed
# resumes. No row is lost or stored twice.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;
use Time::HiRes qw(time);

my $ROWS   = 20_000;    # rows per round, in transactions of 100
my $ROUNDS = 3;

my $pg = Clairon::Test::postgresql('main', conf => "wal_sender_timeout = 2s\n");
$pg->safe_psql('postgres', q{
    CREATE TABLE plain (id int PRIMARY KEY, owner text DEFAULT 'u1', filler text);
    CREATE TABLE acked (id int PRIMARY KEY, owner text DEFAULT 'u1');
    SELECT clairon.watch('plain', 'USER', 'owner');
    SELECT clairon.watch('acked', 'USER', 'owner', ack_required => true);
    CREATE PROCEDURE add_rows(first int, last int) LANGUAGE plpgsql AS $$
    BEGIN
        FOR i IN first .. last LOOP
            INSERT INTO plain (id, filler) VALUES (i, repeat('x', 500));
            IF i % 100 = 0 THEN
                INSERT INTO acked VALUES (i);
                COMMIT;
            END IF;
        END LOOP;
    END $$});
my $store  = Clairon::Test::store();
my @relays = map { Clairon::Test::relay($pg, $store) } 1, 2;
my ($reads, $waits) = @relays;

sub sql    { return $pg->safe_psql('postgres', $_[0]) }
sub stored { return $store->stored }
sub feed   { return ($_[0]->get('/readyz'))[1] =~ /"feed":"(\w+)"/ ? $1 : 'none' }

wait_until('one relay streams, the other is in standby', sub {
    ($reads, $waits) = sort { feed($b) cmp feed($a) } @relays;
    return feed($reads) eq 'streaming' && feed($waits) eq 'standby';
});

my $rows = 0;
for my $round (1 .. $ROUNDS)
{
    # The relay is stopped while it has buffered rows and unread WAL. If it has already stored all rows, the test adds
    # more and stops it again.
    my ($mark, $began);
    while (1)
    {
        my $before = stored();
        sql(sprintf 'CALL add_rows(%d, %d)', $rows + 1, $rows + $ROWS);
        $rows += $ROWS;
        wait_until('many rows are stored', sub { stored() > $before + 200 });
        ($mark, $began) = ($waits->log_mark, $reads->log_mark);
        kill STOP => $reads->pid;
        last if stored() < 1.01 * $rows;
        kill CONT => $reads->pid;
    }

    # PostgreSQL closes the stopped relay's connection after the timeout.
    $waits->wait_for_log(qr/streaming from slot/, from => $mark);

    # The buffered rows of the stopped relay arrive while the other relay writes.
    kill CONT => $reads->pid;
    $reads->wait_for_log(qr/waiting as standby/, from => $began);
    wait_until('all rows are stored', sub { stored() >= 1.01 * $rows });
    wait_until('one relay streams, the other is in standby', sub {
        feed($waits) eq 'streaming' && feed($reads) eq 'standby' });
    pass("round $round: the other relay takes over, and the stopped relay becomes the standby");
    ($reads, $waits) = ($waits, $reads);
}

my (@plain, @acked);
for my $entry ($store->entries)
{
    my ($table, $id) = $entry->{data} =~ /"source":"(\w+)".*"after":\{"id":(\d+)/;
    push @{ $table eq 'plain' ? \@plain : \@acked }, $id;
}
is_deeply(\@plain, [ 1 .. $rows ], 'each row is stored once, in order');
is_deeply(\@acked, [ map { 100 * $_ } 1 .. $rows / 100 ], 'each row with ack_required is stored once, in order');
is($store->pending, scalar @acked, 'each row with ack_required is pending once');

# After the streaming relay is killed, the other relay takes over.
my $mark = $waits->log_mark;
$reads->kill9;
my $died = time;
$waits->wait_for_log(qr/streaming from slot/, from => $mark);
note sprintf 'taken over after %.2f s', time - $died;

done_testing();
