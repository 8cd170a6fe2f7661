# Tests that the client receives each notification exactly once when two relays are restarted in turn while rows are
# written.
use strict;
use warnings;

use Clairon::Test qw(wait_until token scratch);
use Test::More;

plan skip_all => 'node is not installed' if system('node --version >/dev/null 2>&1') != 0;

use constant { TURNS => 3, ROWS => 3000 };

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true)});
my $store  = Clairon::Test::store();
my @relays = map { Clairon::Test::relay($pg, $store, conf => { 'gate.drain' => '500ms', 'delivery.ack_timeout' => '1h' }) } 1, 2;
# Simulates a load balancer: one address that leads only to running relays.
my $proxy = Clairon::Test::proxy("127.0.0.1:$relays[0]{port}");

my @pages = map { Clairon::Test::page(name => "page$_", websocket => 1, url => $proxy->url('http') . '/v1/ws',
        token => token(sub => "u$_")) } 1 .. 3;
for my $page (@pages) { wait_until('a page is open', sub { ($page->state->{state} // '') eq 'open' }) }
note('by ' . $pages[0]->state->{transport});

my $rows = scratch() . '/rows.sql';
open my $file, '>', $rows or die "could not write $rows: $!";
print {$file} "INSERT INTO t VALUES ($_, 'u' || 1 + $_ % 3); SELECT pg_sleep(0.002);\n" for 1 .. ROWS;
close $file;
my $writer = Clairon::Test::writer($pg, $rows);

my $restarts = 0;
for my $turn (1 .. TURNS)
{
    for my $i (0, 1)
    {
        my $seen = $pages[0]->rows;
        $proxy->target("127.0.0.1:$relays[ 1 - $i ]{port}");
        is($relays[$i]->stop, 0, "turn $turn: relay $i drains");
        $relays[$i]->start;
        $relays[$i]->wait_ready;
        wait_until('more rows arrive', sub { $pages[0]->rows > $seen || $pages[0]->rows == ROWS / 3 });
        $restarts++ if $pages[0]->rows < ROWS / 3;
    }
}
$writer->finish;
cmp_ok($restarts, '>=', 2, "the relays restart $restarts times while rows are written");
for my $i (1 .. 3)
{
    my $page = $pages[ $i - 1 ];
    my @own = grep { 1 + $_ % 3 == $i } 1 .. ROWS;
    wait_until("page $i has all rows", sub { $page->rows >= @own });
    is_deeply([ $page->rows ], \@own, "page $i receives each row once, in order");
    is(join(' ', $page->problems), '', "page $i reports no gap and no error");
}
wait_until('all notifications are acknowledged', sub { $store->pending == 0 });
is(scalar $store->entries, ROWS, 'each row is stored once, without retries');
kill TERM => $_->pid for @pages;
$_->wait_end for @pages;

done_testing();
