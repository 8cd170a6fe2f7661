# Tests that lists and counts that start during an outage of PostgreSQL have the relay's error, and have rows after it.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use JSON ();
use Test::More;

plan skip_all => 'node is not installed' if system('node --version >/dev/null 2>&1') != 0;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE tasks (id int PRIMARY KEY, owner text);
    ALTER TABLE tasks REPLICA IDENTITY FULL;
    INSERT INTO tasks VALUES (1, 'u1'), (2, 'u1'), (3, 'u2');
    SELECT clairon.watch('tasks', 'USER', 'owner', live => true)});
my $xid   = $pg->safe_psql('postgres', q{SELECT pg_current_xact_id()});
my $relay = Clairon::Test::relay($pg, Clairon::Test::store(), conf => { 'rows.timeout' => '500ms' });
$pg->stop('immediate');

my %pages = map {
    $_ => Clairon::Test::page(name => $_, websocket => $_ eq 'websocket', url => $relay->url . '/v1/ws', token => token(sub => 'u1'), script => <<"END")
const lists = { list: client.live('tasks'), count: client.count('tasks') };
for (const [name, list] of Object.entries(lists)) {
  list.subscribe((value) => {
    emit({ name, size: value.length ?? value, loading: list.loading, code: list.error?.code, text: list.error?.message, of: client.state });
  });
}
client.seen('$xid', { timeout: 5000 }).catch(({ message }) => emit({ seen: message }));
END
} 'websocket', 'streams';

sub last_of
{
    my ($page, $name) = @_;
    my ($last) = reverse grep { ($_->{name} // '') eq $name } $page->events;
    return $last // { loading => 1 };
}

my %sizes = (list => 2, count => 2);
for my $kind (sort keys %pages)
{
    for my $name (sort keys %sizes)
    {
        wait_until("$kind: the $name has an error", sub { last_of($pages{$kind}, $name)->{code} });
        my $last = last_of($pages{$kind}, $name);
        is_deeply([ @$last{qw(size loading code of)} ], [ 0, JSON::true, 111, 'open' ], "$kind: the $name is loading, with error 111, and the client is open");
        is($last->{text}, 'database does not reply', "$kind: the error of the $name has the relay's reason");
    }
    wait_until("$kind: seen() rejects", sub { grep { $_->{seen} } $pages{$kind}->events });
    my ($rejected) = map { $_->{seen} // () } $pages{$kind}->events;
    is($rejected, "transaction $xid: not visible within 5000 ms: database does not reply", "$kind: the timeout of seen() has the relay's reason");
}

$pg->start;
for my $kind (sort keys %pages)
{
    for my $name (sort keys %sizes)
    {
        wait_until("$kind: the $name is loaded", sub { !last_of($pages{$kind}, $name)->{loading} });
        my $last = last_of($pages{$kind}, $name);
        is_deeply([ @$last{qw(size code)} ], [ $sizes{$name}, undef ], "$kind: after the outage the $name is complete, without an error");
    }
    my @reports = grep { $_->{error} } $pages{$kind}->events;
    cmp_ok(scalar(@reports), '<=', 2, "$kind: each list reports the outage once");
}

done_testing();
