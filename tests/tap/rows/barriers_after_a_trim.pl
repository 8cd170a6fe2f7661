# Tests barriers of a relay that was stopped while notifications were trimmed: it has read all that is left, so the barriers
# are served although PostgreSQL writes no further WAL.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed script_text token);
use HTTP::Tiny;
use JSON ();
use Test::More;

use constant { NOTIFICATIONS => 200, RETENTION_MS => 1000 };

for my $shards (1, 4)
{
    local $ENV{CLAIRON_TEST_SHARDS} = $shards;
    my $pg      = Clairon::Test::postgresql("main$shards", conf => "autovacuum = off\n");
    my $store   = Clairon::Test::store();
    my %conf    = ('store.retention' => RETENTION_MS . 'ms', 'rows.timeout' => '20s');
    my $feeding = Clairon::Test::relay($pg, $store, conf => {%conf});
    my $relay   = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { %conf, 'rows.conninfo' => $pg->connstr('postgres') . ' user=relay' });
    my $now     = sub { my ($s, $us) = @{ $store->execute('TIME') }; return $s * 1000 + $us / 1000 };
    my $barrier = sub { return ($relay->get('/v1/barrier', Authorization => 'Bearer ' . token(sub => 'u1')))[0] };
    my $http    = HTTP::Tiny->new;
    my %add     = (
        'over HTTP' => sub {
            my $response = $http->post($feeding->url('/v1/notifications'), {
                headers => { Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true) },
                content => '{"routing":{"audience":{"type":"USER","targets":["u1"]}},"payload":{}}' });
            die "not published: $response->{content}\n" if $response->{status} != 201 },
        'with WAL' => sub { $pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{u1}', '{}')}) });
    for my $how (sort keys %add)
    {
        my ($session, $witness) = ($relay->client('u1'), $feeding->client('u1'));
        $add{$how}->();
        $_->wait_notifications(1) for $session, $witness;
        is($barrier->(), 200, "$shards shards: a barrier is served");
        kill STOP => $relay->pid;
        $add{$how}->() for 1 .. ($how eq 'over HTTP' ? NOTIFICATIONS : 20);
        $witness->wait_notifications(1 + ($how eq 'over HTTP' ? NOTIFICATIONS : 20));
        wait_confirmed($pg);
        my $from = $now->();
        wait_until('the retention has passed', sub { $now->() > $from + RETENTION_MS + 10 });
        $store->execute('EVAL', script_text('trim'), 1, $_, s/:stream$//r, RETENTION_MS, RETENTION_MS, 1_000_000) for $store->keys('stream');
        is(scalar($store->entries), 0, 'all notifications were trimmed');
        kill CONT => $relay->pid;
        $session->run_until('the loss is announced', sub { $session->gaps eq 'trimmed' });
        is($barrier->(), 200, "$shards shards: a barrier is served after notifications $how were trimmed");
        $_->close for $session, $witness;
    }
}

done_testing();
