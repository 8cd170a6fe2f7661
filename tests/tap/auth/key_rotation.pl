# Tests that the auth key can be replaced while the relay runs, without rejecting valid tokens.
use strict;
use warnings;

use Clairon::Test qw(wait_until token scratch);
use Clairon::Test::RawSocket;
use Test::More;

my $store = Clairon::Test::store();
my $file  = scratch() . '/key';

sub write_key
{
    my ($text) = @_;
    open my $out, '>', "$file.new" or die "could not write: $!";
    print {$out} $text;
    close $out;
    rename "$file.new", $file or die "could not rename: $!";
    return;
}

my ($first, $second, $third) = map { $_ x 40 } 'a', 'b', 'c';
write_key("$first\n");
for my $workers (1, 2)
{
    write_key("$first\n");
    my $relay = Clairon::Test::relay(undef, $store, roles => 'gate',
        conf => { 'auth.hs256_secret_file' => $file, 'gate.workers' => $workers });

    # Reports whether every worker accepts a token signed with this key.
    my $accepts = sub {
        my ($secret, $token) = @_;
        my %outcomes;
        for (1 .. 8 * $workers)
        {
            my $raw = Clairon::Test::RawSocket->open($relay);
            $raw->send_json({ t => 'connect', token => $token // token(sub => 'u1', secret => $secret) });
            my $line = $raw->next_message;
            $outcomes{ $line->{t} eq 'connected' ? 'yes' : 'no' }++;
            $raw->disconnect;
        }
        return join ' and ', sort keys %outcomes;
    };
    my $reload = sub {
        my ($words) = @_;
        my $mark = $relay->log_mark;
        kill HUP => $relay->pid;
        wait_until('all workers have read the file', sub { $workers <= (() = $relay->log_text($mark) =~ /\Q$words\E/g) });
    };

    is($accepts->($first),  'yes', "$workers: the initial key is accepted");
    is($accepts->($second), 'no',  "$workers: no other key is accepted");
    my $stays = Clairon::Test::RawSocket->user($relay, 'u2', token => token(sub => 'u2', secret => $first));
    write_key($second);
    is($accepts->($second), 'no', "$workers: a changed file has no effect yet");
    $reload->('auth key changed');
    is($accepts->($second), 'yes', "$workers: after SIGHUP the new key is accepted");
    is($accepts->($first),  'yes', "$workers: the previous key is still accepted");
    write_key('too short');
    $reload->('could not reload the auth key');
    is($accepts->($second), 'yes', "$workers: a file without a valid key has no effect");
    unlink $file;
    $reload->('could not reload the auth key');
    is($accepts->($first), 'yes', "$workers: a missing file has no effect");
    write_key($third);
    $reload->('auth key changed');
    is($accepts->($third),  'yes', "$workers: the third key is accepted");
    is($accepts->($second), 'yes', "$workers: the second key is still accepted");
    my $used = token(sub => 'u1', secret => $second);
    is($accepts->($second, $used), 'yes', "$workers: a token of the second key is accepted");
    is($accepts->($first),  'no',  "$workers: the first key is rejected");
    $reload->('auth key file unchanged" hint="to revoke the previous key');
    is($accepts->($second), 'yes', "$workers: SIGHUP with an unchanged file keeps the previous key");
    utime time() + 5, time() + 5, $file;
    $reload->('previous key revoked');
    is($accepts->($third),  'yes', "$workers: after SIGHUP with a touched file the third key is accepted");
    is($accepts->($second), 'no',  "$workers: the second key is rejected");
    is($accepts->($second, $used), 'no', "$workers: a token that was accepted before is rejected");
    $stays->send_json({ t => 'ping' });
    is($stays->wait_message('pong')->{t}, 'pong', "$workers: open connections stay open");
    if ($workers > 1)
    {
        write_key($second);
        $reload->('auth key changed');
        kill KILL => (Clairon::Test::children($relay->pid))[0];
        wait_until('a new worker runs', sub { $workers < (() = $relay->log_text =~ /msg="started" pid=/g) });
        is($accepts->($second), 'yes', "$workers: a new worker accepts the new key");
        is($accepts->($third),  'yes', "$workers: a new worker accepts the previous key");
        is($accepts->($first),  'no',  "$workers: a new worker rejects older keys");
    }
    unlike($relay->log_text, qr/a{20}|b{20}|c{20}/, "$workers: no key is in the log");
    is($relay->stop, 0, "$workers: SIGTERM ends the relay with status 0");
}

done_testing();
